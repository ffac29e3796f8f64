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
    "The rows *as in the published code* do all of that, on batches of 100 rows for 15 epochs instead of 100; they say "
    "nothing about reasoning. With that, of seed 0, no figure is off of GRU on both data sets, of CNN and CNNH on "
    "089907f8 and of RNN on db9b8f04. It is the place of reading that holds GRU and RNN down: told the label and read "
    "as ours are, they were far above the paper (.91 and .96 at 10 edges of 089907f8). The LSTM is below from 5 edges "
    "of 089907f8 on and at 8 and 10 of db9b8f04, and so are CNN and CNNH on db9b8f04: whether the other 85 epochs "
    "close that has not been run. Not explained: the LSTM of the long tuning, whose independent encoding is not told "
    "the label in that code either. Ours have"
)
_STEPS = "1,000 steps of 32 distinct graphs instead of 10,000 of 100 rows."
_POOLED = (
    "The published code averages over as many nodes as the largest graph of a batch has, ours over those of the graph "
    "itself. Tried with GCN of the long tuning on 089907f8, seed 0: averaged as published .84 .63 .51 .45 .49 .50 .44 "
    "at 4…10 edges, ours .82 .61 .52 .48 .52 .50 .49; the paper has .84 .61 .51 .48 .45 .47 .41. That is why ours "
    "are better on long graphs. The rows *as in the published code* average like it, and leave the last linear map "
    "untrained, as it does; its second layer of GAT has one head, ours ten. Not explained: where ours are below, on "
    "short graphs of db9b8f04. Ours have"
)
REASONS: dict[str, str] = {
    **dict.fromkeys(("rnn", "lstm", "gru", "cnn", "cnnh", "mha"), f"{_PUBLISHED} {_STEPS}"),
    **dict.fromkeys(("gat", "gcn"), f"{_POOLED} {_STEPS}"),
    **dict.fromkeys(("ctp-linear", "ctp-attentive", "ctp-memory"), _RERUN),
    "gntp": f"{_RERUN} The paper does not say which k of 5, 7, 9 and 11 its table has.",
    "ctp (links)": (
        "Sampled negatives, as published, are the cause: the same prover trained by rankings against all rivals (*by "
        "rankings*) passes the published figure on Nations, UMLS and Countries S2 and comes within .01 of it on "
        "Kinship and S1. On S3 that closes half of the difference; the rest is not explained. 25 epochs of one "
        "configuration here, in the paper the best of several."
    ),
    "gntp (links)": "The settings of CTP with `select: gntp`, not tuned.",
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
