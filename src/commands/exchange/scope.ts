/** The resources that an exchange holds and always releases at its end: reservations, places, permits. */

/** @param isRecorded whether the end of the exchange, with what it has spent, is on disk */
export type Release = (isRecorded: boolean) => void;

export class ExchangeScope {
  #releases: Release[] = [];

  /** Calls `release` once, when the exchange ends or the scope is left early. The last one is called first. */
  atEnd(release: Release): void {
    this.#releases.push(release);
  }

  end(isRecorded: boolean): void {
    const releases = this.#releases;
    this.#releases = [];
    for (const release of releases.toReversed()) release(isRecorded);
  }
}
