/** Whether full segments are replaced by new ones, indexed and compressed. Events are accepted in any case. */

export type RotationStep = 'begin' | 'archive';

const messages: Readonly<Record<RotationStep, string>> = {
  begin: 'a new segment of the event log cannot be created; the full one keeps growing',
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
  get lastError(): string | undefined {
    return this.#failing.size === 0 ? undefined : [...this.#failing.values()].join('; ');
  }

  /** Warns once for each reason: attempts may be many. */
  failed(step: RotationStep, error: unknown): void {
    this.#failures++;
    const lastError = `${messages[step]}: ${error instanceof Error ? error.message : String(error)}`;
    if (this.#failing.get(step) === lastError) return;
    this.#failing.set(step, lastError);
    this.#warn(messages[step], error);
  }

  succeeded(step: RotationStep): void {
    this.#failing.delete(step);
  }
}
