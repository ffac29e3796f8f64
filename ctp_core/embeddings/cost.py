"""What training an embedding costs: forecast from the sizes of the KB, without torch.

The times are of one core of a shared machine, measured over 100 to 100,000 entities and ranks of 50 to 800.
"""

from ctp_core.base.cost import Forecast
from ctp_core.embeddings.config import EmbeddingConfig
from ctp_core.kb.profile import Profile
from ctp_core.kb.splits import HOLD_OUT_SHARE

SCORE = 0.13e-9  # seconds for a number of a question's vector times one of a rival's, and the gradients of both
ANSWER = 70e-9  # seconds for a number of an answer's vector: its product, its norm, its predicate
STEP = 2.5e-3  # seconds that a step takes however small it is
UPDATE = 3e-9  # seconds for a number that Adagrad updates
RANK = 15e-9  # seconds to compare one score with that of the true answer
QUESTIONS = 0.6  # different questions for each fact read either way, where nobody has counted them
VALIDATION = 5000  # the most facts that are ranked between epochs
FIXED_BYTES = 350_000_000  # the program itself
COPIES = 6  # of all vectors: weights, gradients, Adagrad's sums, the best ones, and two while a model is made
RANKED_BYTES = 500 * 48  # for each entity, while facts are ranked
STEP_BYTES = 240  # for each number of the vectors of a step's questions and answers
TABLES = 3  # of the scores of a step: scores, weights of the rivals, a temporary one


def forecast(config: EmbeddingConfig, profile: Profile) -> Forecast:
    """CPU seconds and peak memory of a training with exactly these settings."""
    answers, entities, numbers = 2 * profile.num_facts, profile.num_entities, config.width
    questions = (profile.num_questions or answers * QUESTIONS) if config.grouped else answers
    steps = max(1.0, questions / config.batch_size)
    rivals = _rivals(config, profile)
    touched = (entities if config.negatives is None else rivals) * numbers
    epoch = numbers * (questions * rivals * SCORE + answers * ANSWER) + steps * (STEP + touched * UPDATE)
    ranked = min(profile.valid_facts or HOLD_OUT_SHARE * profile.num_facts, VALIDATION)
    validation = 2 * ranked * entities * (numbers * SCORE / 3 + RANK)
    validations = config.epochs // config.eval_every + 1
    seconds = config.epochs * epoch + validations * validation
    vectors = (entities + 2 * profile.num_predicates) * numbers
    step = (
        4 * TABLES * config.batch_size * rivals
        + STEP_BYTES * config.batch_size * (1 + answers / max(1, questions)) * numbers
    )
    peak = FIXED_BYTES + 4 * COPIES * vectors + step + RANKED_BYTES * entities + 200 * profile.num_facts
    basis = f"{config.epochs} epochs of {answers:,} questions with {rivals:,} rivals at rank {config.rank}"
    return Forecast(seconds, int(peak), basis)


def _rivals(config: EmbeddingConfig, profile: Profile) -> int:
    if config.negatives is None:
        return profile.num_entities
    return min(profile.num_entities, config.negatives + 2 * config.batch_size)
