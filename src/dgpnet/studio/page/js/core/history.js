/**
 * Undo and redo of one photograph, without limit: what is kept of a step are runs, so a thousand strokes are small.
 *
 * A step knows where the mask came from before it ("empty", "found" or "painted") and after it. Taking back a step that
 * began a painted mask means that there is none any more: the photograph is not an example by mistake.
 *
 * @typedef {"empty" | "found" | "painted"} Source
 * @typedef {{x: number, y: number, width: number, height: number, runs: number[], back: number[],
 *            from: Source, to: Source}} Step
 */
export class History {
  constructor() {
    /** @type {Step[]} */
    this.steps = [];
    /** How many of them are done; the others can be done again. */
    this.done = 0;
  }

  get canUndo() {
    return this.done > 0;
  }

  get canRedo() {
    return this.done < this.steps.length;
  }

  /** @param {Step} step something new was done: what had been undone is gone */
  push(step) {
    this.steps.length = this.done;
    this.steps.push(step);
    this.done++;
  }

  /** @returns {Step | null} with the runs to apply, and from/to the way that it goes now */
  undo() {
    if (!this.canUndo) return null;
    const step = this.steps[--this.done];
    return { ...step, runs: step.back, back: step.runs, from: step.to, to: step.from };
  }

  /** @returns {Step | null} */
  redo() {
    return this.canRedo ? { ...this.steps[this.done++] } : null;
  }
}
