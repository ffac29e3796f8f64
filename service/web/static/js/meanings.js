// What the numbers of the page mean, each in one or two sentences.
import { h } from "./dom.js";

const WORDS = { mrr: "MRR", ece: "calibration error", accuracy: "accuracy" };
const MEANINGS = {
  mrr: "Mean reciprocal rank. The right answer scores 1 if it is first of all candidates, 1/2 if second, 1/10 if tenth; this is the mean over both directions of every fact asked for. 1 is perfect.",
  "hits@1": "How often the right answer was first among all candidates.",
  "hits@3": "How often the right answer was among the first three of all candidates.",
  "hits@10": "How often the right answer was among the first ten of all candidates.",
  accuracy: "How often the label with the highest score was the right one.",
  ece: "Expected calibration error: how far scores are from how often they come true, on average. 0.03 means that of answers scored 0.80, between 77 and 83 of 100 are true. 0 is perfect.",
  confidence: "The probability that what the rule concludes is true, counted over the facts and cautious where there are few.",
  weight: "What the rule adds to the score of an answer, on the logit scale: each step of 0.7 doubles the odds.",
  support: "How many facts of the KB the rule explains: its body holds, and so does its head.",
  precision: "Of all pairs for which the body of the rule holds, the share for which the KB states the head.",
  bias: "What the score would be without any proof: how common such facts are.",
  rest: "What all other proofs and the parts that have no proof add together.",
};

/** A figure's name that tells what it means when it is opened. */
export function explained(key, suffix = "") {
  const text = `${WORDS[key] ?? key.replaceAll("_", " ")} ${suffix}`.trim();
  const meaning = MEANINGS[key];
  return meaning ? h("details", { class: "meaning" }, h("summary", {}, text), h("p", {}, meaning)) : text;
}

/** The same for places where nothing can be opened. */
export const meaning = (key) => MEANINGS[key] ?? null;
