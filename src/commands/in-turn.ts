/** Runs one piece of work after another: a decision that depends on other streams must not overlap with their changes. */
export class InTurn {
  #last: Promise<unknown> = Promise.resolve();

  /** Starts `work` when everything before it has ended, also when that failed. */
  run<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }
}
