/**
 * Turns by weight, distributed as evenly as possible (the "smooth weighted round robin" of nginx): each time, every
 * entry gains its weight; the entry with the most is chosen, and loses the sum of all gains. Over as many turns as
 * the sum of the weights, each entry is chosen exactly as often as its weight.
 */
export class RoundRobin<Who> {
  readonly #standing = new Map<Who, number>();

  /**
   * @param among never empty; an entry that is left out this time neither gains nor loses
   * @returns the index of the chosen entry
   */
  next(among: readonly { readonly who: Who; readonly weight: number }[]): number {
    let total = 0;
    let chosen = 0;
    let most = Number.NEGATIVE_INFINITY;
    for (const [place, { who, weight }] of among.entries()) {
      const standing = (this.#standing.get(who) ?? 0) + weight;
      this.#standing.set(who, standing);
      total += weight;
      if (standing > most) {
        most = standing;
        chosen = place;
      }
    }
    const winner = among[chosen]?.who;
    if (winner !== undefined) this.#standing.set(winner, most - total);
    return chosen;
  }
}
