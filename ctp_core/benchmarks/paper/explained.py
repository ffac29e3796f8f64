"""What the report says in words."""

NAMES = {
    "ours": "*CTP attentive, tabled (`fast`)*",
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
NAMES |= {
    f"{system}-told": f"*{NAMES[system]}, told the label*" for system in ("rnn", "lstm", "gru", "cnnh", "cnn", "mha")
}

INTRODUCTION = """# The paper's tables, run again
    ctp bench paper --data DIR --seeds {seeds} --resume

Every cell is one training through the registry. Ours comes first, mean ± standard deviation over the seeds, then in
brackets the paper's figure, over ten seeds. ▼ (▽): below CTP linear (CTP for links) with p < 10⁻⁴ (10⁻²) by Welch's
t-test over our own seeds; one seed has no test. ≠: further from the paper than twice its standard deviation (at least
.01, because figures are rounded); the last section says why. *Italic*: not in the paper. CPU s: training and testing
one seed on one thread of a machine that was busy with other work."""

DYNAMICS = """Share of the training graphs, weighted by how often they occur, that the model labels rightly after so
many batches of 32. As in the paper: 5 reformulators, or 32 rules of which GNTP tries the best 5; vectors of length 50;
exact prover, Adagrad 0.1. The paper says that the three CTPs are nearly perfect in less than 300 iterations and that
GNTP is not."""

REASONS: dict[str, str] = {}
