/** What the stand-in does wrong on request. */
export interface FaultSettings {
  /** Refuses this many appends, without effect. */
  readonly refuseAppends?: number;
  /** Of these appends, it records them and cuts the connection instead of answering. */
  readonly cutAfterAppends?: number;
  /** Records this many appends, then refuses one. */
  readonly refuseAppendAfter?: number;
  /** Delays every append. */
  readonly delayMs?: number;
  /** Appends that arrive together are recorded in the reverse order. */
  readonly reverse?: boolean;
  /** The subscriptions that exist now get no more events, without an error. */
  readonly muteSubscriptions?: boolean;
  /** No subscription gets events, until other faults are set. */
  readonly holdEvents?: boolean;
}

export type AppendFate = 'record' | 'refuse' | 'cut';

export class Faults {
  #settings: FaultSettings = {};
  #refused = 0;
  #cut = 0;
  #passed = 0;
  #mutes = 0;

  set(settings: FaultSettings): void {
    this.#settings = settings;
    if (settings.muteSubscriptions === true) this.#mutes++;
    this.#refused = 0;
    this.#cut = 0;
    this.#passed = 0;
  }

  get delayMs(): number {
    return this.#settings.delayMs ?? 0;
  }

  get reverse(): boolean {
    return this.#settings.reverse ?? false;
  }

  get holdsEvents(): boolean {
    return this.#settings.holdEvents ?? false;
  }

  /** How often subscriptions were muted: one that began before the last time gets nothing. */
  get mutes(): number {
    return this.#mutes;
  }

  nextAppend(): AppendFate {
    const { refuseAppends = 0, cutAfterAppends = 0, refuseAppendAfter } = this.#settings;
    if (this.#refused < refuseAppends) {
      this.#refused++;
      return 'refuse';
    }
    if (this.#cut < cutAfterAppends) {
      this.#cut++;
      return 'cut';
    }
    return refuseAppendAfter !== undefined && this.#passed++ === refuseAppendAfter ? 'refuse' : 'record';
  }
}
