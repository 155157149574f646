/** Whether full segments are replaced by new ones, indexed and compressed. Events are accepted in any case. */

export type RotationStep = 'begin' | 'archive';

const messages: Readonly<Record<RotationStep, string>> = {
  begin: 'a new segment of the event log cannot be begun; the full one grows on',
  archive: 'a full segment of the event log cannot be indexed or compressed; it stays as it is for now',
};

export class RotationHealth {
  readonly #warn: (message: string, error: unknown) => void;
  readonly #failing = new Map<RotationStep, string>();
  #failures = 0;

  constructor(warn: (message: string, error: unknown) => void) {
    this.#warn = warn;
  }

  /** Failed attempts so far. */
  get failures(): number {
    return this.#failures;
  }

  /** The present failure; undefined when there is none. */
  get trouble(): string | undefined {
    return this.#failing.size === 0 ? undefined : [...this.#failing.values()].join('; ');
  }

  /** Warns once for each reason: attempts may be many. */
  failed(step: RotationStep, error: unknown): void {
    this.#failures++;
    const trouble = `${messages[step]}: ${error instanceof Error ? error.message : String(error)}`;
    if (this.#failing.get(step) === trouble) return;
    this.#failing.set(step, trouble);
    this.#warn(messages[step], error);
  }

  worked(step: RotationStep): void {
    this.#failing.delete(step);
  }
}
