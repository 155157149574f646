/**
 * Turns by weight, as evenly as they can be mixed (the "smooth weighted round robin" of nginx): each time everybody
 * gains its weight, whoever has most has the turn, and pays for it what all have gained. Over as many turns as the
 * weights add up to, each has exactly its weight in turns.
 */
export class RoundRobin<Who> {
  readonly #standing = new Map<Who, number>();

  /**
   * @param among never empty; whoever is left out this time neither gains nor pays
   * @returns the place of the one whose turn it is
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
