/**
 * Turns by weight, distributed as evenly as possible (the "smooth weighted round robin" of nginx): each time, every
 * entry gains its weight; the entry with the most is chosen, and loses the sum of all gains. Over as many turns as
 * the sum of the weights, each entry is chosen exactly as often as its weight.
 */
export class RoundRobin<Entry> {
  readonly #weightSum = new Map<Entry, number>();

  /**
   * @param among never empty; an entry that is left out this time neither gains nor loses
   * @returns the index of the chosen entry
   */
  next(among: readonly { readonly entry: Entry; readonly weight: number }[]): number {
    let total = 0;
    let chosen = 0;
    let most = Number.NEGATIVE_INFINITY;
    for (const [place, { entry, weight }] of among.entries()) {
      const weightSum = (this.#weightSum.get(entry) ?? 0) + weight;
      this.#weightSum.set(entry, weightSum);
      total += weight;
      if (weightSum > most) {
        most = weightSum;
        chosen = place;
      }
    }
    const winner = among[chosen]?.entry;
    if (winner !== undefined) this.#weightSum.set(winner, most - total);
    return chosen;
  }
}
