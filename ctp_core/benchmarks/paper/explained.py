"""What the report says in words."""

from ctp_core.config.networks import NETWORKS

NAMES = {
    "ours": "*CTP attentive, tabled (`fast`)*",
    "ours-linear": "*CTP linear, tabled (`fast`)*",
    "ours-memory": "*CTP memory, tabled (`fast`)*",
    "ctp-linear": "CTP linear",
    "ctp-attentive": "CTP attentive",
    "ctp-memory": "CTP memory",
    "ctp": "CTP",
    "gntp": "GNTP",
    "gat": "GAT",
    "gcn": "GCN",
    "rnn": "RNN",
    "lstm": "LSTM",
    "gru": "GRU",
    "cnnh": "CNNH",
    "cnn": "CNN",
    "mha": "MHA",
    "neurallp": "NeuralLP",
    "minerva": "MINERVA",
}
NAMES |= {f"{system}-published": f"*{NAMES[system]}, as in the published code*" for system in NETWORKS}

NAMES |= {f"ctp-{select}-deep": f"CTP {select}, depth 3, Adam 0.01" for select in ("linear", "attentive", "memory")}

LINK_NAMES = {"ours": "*proofs (`fast`)*", "ctp-ranked": "*CTP, by rankings (`fast`)*"}

INTRODUCTION = """# The paper's tables, run again
    ctp bench paper --data DIR --seeds {seeds} --resume

Every cell is one training through the registry. Ours comes first, mean ± standard deviation over the seeds, then in
brackets the paper's figure, over ten seeds. ▼ (▽): below CTP linear (CTP for links) with p < 10⁻⁴ (10⁻²) by Welch's
t-test over our own seeds; one seed has no test. ≠: further from the paper than twice its standard deviation (at least
.01, because figures are rounded; ours where the paper gives none); the last section says why. *Italic*: not in the
paper. CPU s: training and testing one seed on one thread, which other work on the machine lengthens up to threefold. A
row with 0 seeds has not been run.

Finished cells are in [paper.json](paper.json), a line each: figures, CPU seconds, the settings that are not defaults,
and the commit. `--resume` goes on from there, on any machine, and writes this page from all of them; more seeds add
up. A finished cell is kept when code changes, unless its settings or the benchmark's version do."""

DYNAMICS = """Share of the training graphs, weighted by how often they occur, that the model labels rightly after so
many batches of 32 rows; every fourth distinct graph of db9b8f04. **99.3 % is the ceiling**: 29 of the 2,340 graphs have
two labels, and whoever knows the commoner one of each reaches 99.34 % of these (99.58 % of all; 99.62 % of 089907f8,
where 7 of 383 have two). As in the paper: 5 reformulators, or 32 rules of which GNTP tries the best 5; vectors of
length 50. The paper says that the three CTPs are nearly perfect in less than 300 iterations and that GNTP is not.

*Depth 3, Adam 0.01* and the plain rows are the exact prover, which is the paper's; the plain rows have the published
code's depth 2 and Adagrad 0.1. Why these fail was looked for on the training graphs alone (linear, 200 iterations;
accuracy on graphs of 2 / 3 / 4 edges): as published 94 / 92 / 62 %, Adam 0.01 100 / 97 / 69 %, and that at depth 3 100
/ 96 / 98 %. At depth 2 a chain of four facts has to fall into two halves, which often mean nothing by themselves. Adam
0.03 and 0.05, Adagrad 0.3, slope 0.3, max–product and batches of distinct graphs, most of which have four edges, were
all worse in single runs. The memory has 512 rules there (at depth 2, 200 iterations: 128 rules 68 %, 512 80 %).
Attentive with batches of 100 reaches 98.2 % after 300, with Adam 0.02 88 %. In italics the tabled prover with the
preset `fast`, at a constant rate, trained at depth 3. On batches of distinct graphs, which the preset has otherwise,
linear needs 180 iterations and memory 420.

So all three reach 99 % in less than 300 iterations with the tabled prover; with the exact one linear reaches 99 % of
the ceiling, attentive and memory do not."""

_RERUN = (
    "The published figure is not what the published code gives: run again with its own hyper-parameters (linear, seed "
    "1, depth 3 in testing) it reaches .95 .85 .74 .66 .52 at 4…8 edges of 089907f8, and ours are above that from 5 "
    "edges on. What was tried on validation graphs (docs/results/clutrr.md): five reformulators instead of three close "
    "most of the difference (88 → 98 % at 4 edges, 84 → 92 % at 8), more epochs alone do not (25 instead of 5: 88 and "
    "85 %), Adam with a falling rate does in part (93 and 93 %); to answer one level less deep costs 25 to 45 points. "
    "The cut to the best five proofs of every step is not in ours and can only take scores away; entities are matched "
    "exactly, where the published code gives every first name a random vector (not tested)."
)
_PUBLISHED = (
    "The published code gives the network the label: goal and facts are linearised with the predicate that each has, "
    "and the goal's is the answer. Ours reads a symbol there that says that it is asked for: the plain rows are what "
    "these networks can do. In that code, besides, a recurrent network is read off at the last place, where the "
    "direction that runs backwards has seen one symbol and the label has to be carried through all facts; rows are "
    "read with their padding; the last linear map is never trained, and of MHA nothing but the vectors of its symbols. "
    "Its batches, besides, are never shuffled, and the files have the shortest graphs first: all rows of a batch are "
    "equally long, so that hardly any padding is read, and an epoch ends with the longest. The rows *as in the "
    "published code* do all of that, on batches of 100 rows for 15 epochs instead of 100; they say nothing about "
    "reasoning. It is the place of reading that holds recurrent networks down: told the label and read as ours are, "
    "GRU and RNN were far above the paper (.91 and .96 at 10 edges of 089907f8). The order of batches is a good part "
    "of what the LSTM's figures rest on, and recurrent networks then go on learning for long (seed 0 of 089907f8): "
    "LSTM shuffled .94 .87 .72 .53 .44 .29 .20 at 4…10 edges, in the order of the file .98 .89 .84 .78 .69 .57 .42 and "
    "after 40 epochs .96 .88 .80 .78 .77 .66 .49; the paper has .98 .95 .88 .87 .81 .75 .75. RNN after 5, 10 and 15 "
    "epochs .35, .51, .54 at 6 edges and .14, .18, .25 at 10, GRU .66, .69, .75 and .30, .33, .37. They still rise, so "
    "that 15 epochs instead of 100 are the likely reason where such rows are below. Not so CNN on db9b8f04: in the "
    "order of the file .94 .93 .88 .87 .73 .78 at 5…10 edges with a training loss of .01, shuffled .94 .91 .90 .79 .81 "
    ".82 after 60 epochs, loss .001, so that neither epochs nor order explain the published 1.00 1.00 .98 .95 .93 .92; "
    "nor do we know why CNNH is below there. Not explained: the LSTM of the long tuning, whose independent encoding is "
    "not told the label in that code either; 1.00 ± .00 at lengths never trained on is otherwise seen only of networks "
    "that are told it. Ours have"
)
_STEPS = "1,000 steps of 32 distinct graphs instead of 10,000 of 100 rows."
_POOLED = (
    "On short graphs it is in part the steps, in part when one stops. Ours have 1,000 of 32 distinct graphs, not "
    "10,000 of 100 rows, and no validation: GCN of the short tuning on db9b8f04 (seed 0) has .83 .78 .60 .57 .60 .56 "
    "at 5…10 edges after 15 epochs, .91 .81 .63 .65 .67 .57 after 30, .91 .78 .65 .62 .65 .57 after 45 and .80 .71 .57 "
    ".60 .61 .52 after 68 (5,000 steps): one run passes from two standard deviations below the paper to within them "
    "and back. GAT there has .92 .76 .75 .73 .69 .70 after 15, .95 .85 .75 .73 .67 .68 after 22, .93 .82 .79 .80 .78 "
    ".76 after 28 and .97 .77 .75 .76 .77 .71 after 34 (2,500 steps); the paper .99 .85 .80 .71 .70 .68. The published "
    "code does not shuffle its batches, and the files have the shortest graphs first, so that an epoch ends with the "
    "longest; it leaves the last linear map untrained; its second layer of GAT has one head, ours ten. The rows *as in "
    "the published code* do all but the last: GCN there has .91 .77 .72 .65 .67 .61 after 15 of its 100 epochs "
    "(shuffled .86 .77 .68 .68 .67 .66), the paper .94 .79 .61 .53 .53 .41. On long graphs ours are better, and it is "
    "not known why. That the published code averages over as many nodes as the largest graph of a batch has, ours over "
    "those of the graph, makes no difference in its order, where nearly all batches have graphs of one size; in "
    "shuffled batches it costs little (GCN of the long tuning on 089907f8, seed 0: .84 .63 .51 .45 .49 .50 .44 at 4…10 "
    "edges, ours .82 .61 .52 .48 .52 .50 .49)."
)
_GNTP = (
    "32 rules, as in the paper, for the 62 compositions of two facts that the training files have. The paper does not "
    "say k, optimiser or epochs of its table; ours were chosen on validation graphs. What matters most is where rules "
    "start: near zero, and so near to all predicates (docs/results/clutrr.md). Started like predicates the same 32 "
    "rules had .20 .22 .21 .22 .19 .21 .15 at 4…10 edges of 089907f8. Seeds differ much, as in the paper (on "
    "validation graphs .68 and .53)."
)
REASONS: dict[str, str] = {
    **dict.fromkeys(("rnn", "lstm", "gru", "cnn", "cnnh", "mha"), f"{_PUBLISHED} {_STEPS}"),
    **dict.fromkeys(("gat", "gcn"), _POOLED),
    **dict.fromkeys(("ctp-linear", "ctp-attentive", "ctp-memory"), _RERUN),
    "gntp": _GNTP,
    "ctp (links)": (
        "Sampled negatives, as published, are the cause: the same prover trained by rankings against all rivals (*by "
        "rankings*) passes the published figure on Nations, UMLS and Countries and comes within .01 of it on Kinship. "
        "On Countries it also matters where entities start: from what is stated of them, with most facts hidden, S3 "
        "has .983, from anywhere .789 (links.md); the rules are the same. 25 epochs of one configuration and 3 "
        "corrupted facts for each fact here; 100 and 9 in the published commands for Nations, Kinship and UMLS. With 9 "
        "Nations has .693 (seed 0), within the paper's spread; the others and 100 epochs were not run."
    ),
    "gntp (links)": (
        "The templates of CTP, which makes its rules anew for every predicate. GNTP's rules are fixed, so that all "
        "predicates share one of them on Countries and UMLS and two on Kinship and Nations; on Nations, as the paper "
        "says, NTP went through sixty. With so few it is little more than matching similar facts. More of them cost as "
        "many times the time and were not run; for S3 see also CTP."
    ),
    "neurallp": (
        "Above the paper on Countries. Nothing that was tried on S2 brings ours near the published .751: one walk "
        "instead of three .980, two steps instead of three .950, trained to find objects alone .980, other true "
        "answers counted as wrong .980, three quarters of the facts in answering .947 to .974. Of the rules that it "
        "lists locatedIn(X,Y) :- neighborOf(X,Z), locatedIn(Z,Y) weighs .01 only; but where a country's own region "
        "is not stated no heavier one applies, and it alone decides the order."
    ),
    "minerva": (
        "Learnt from the summed reward of all walks instead of samples (decision 0601), "
        "and a fact has one score for both directions, where the published code asks for objects alone. What a walker "
        "wants is bounded, without which one training of S1 was lost (.20) and Kinship had .416, but S3 .953. On "
        "Kinship a good part of the difference is how the published code filters: in the last step it takes away the "
        "facts that lead to any other true answer, those of the test split included, and shares their chance among the "
        "rest, so that it prefers walks through entities from which the other true answers are reached. Done like that "
        "in training and ranking, MRR of objects on Kinship's validation facts is .581 instead of .486 (Hits@1 .415, "
        ".300; 40 epochs, seed 0). Ours does not: a score may not depend on what else is known to be true. The rest, "
        "to .720, is not explained; more epochs or fewer hidden facts are not it (MRR of both directions: .465 as it "
        "is, .453 after 32 of 80 epochs, .456 after 24 of 48 with a tenth hidden)."
    ),
}
