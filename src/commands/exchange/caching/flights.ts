/** Requests with one digest at the same time: the first is sent to a provider, the others wait for its answer. */

/** `cached`: the answer can be looked up. `ended_early`: its client left. `not_cached`: another request may fail alike. */
export type FlightEnd = 'cached' | 'ended_early' | 'not_cached';

export interface Flight {
  readonly landed: Promise<FlightEnd>;
  /** Has no effect after the first call. */
  land(end: FlightEnd): void;
}

export class Flights {
  readonly #byDigest = new Map<string, Flight>();

  of(digest: string): Flight | undefined {
    return this.#byDigest.get(digest);
  }

  /** Only while there is none with this digest. */
  begin(digest: string): Flight {
    const { promise, resolve } = Promise.withResolvers<FlightEnd>();
    const flight: Flight = {
      landed: promise,
      land: (end) => {
        if (this.#byDigest.get(digest) === flight) this.#byDigest.delete(digest);
        resolve(end);
      },
    };
    this.#byDigest.set(digest, flight);
    return flight;
  }
}
