/** The events of a streamed answer with the texts that the stream phase returns. One implementation for each dialect. */
import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import { isMedia, isSetting } from '../body/remaining-texts.ts';
import type { StreamChannel, TextKind } from '../guarded-text.ts';
import type { PhaseStop, TextPhase, TextPhaseStep } from '../phases/text-phase.ts';
import { UnchangedTokens } from './unchanged-tokens.ts';

export type StreamEvent = Readonly<Record<string, unknown>>;

export interface GuardedEvents {
  /** The events for the client in place of this one. Empty when all of it is retained, or after the stop. */
  events(event: StreamEvent): readonly StreamEvent[];
  /** The provider's stream ended: the events with what is still retained. Empty for a stream that ended regularly. */
  finish(): readonly StreamEvent[];
  /** Set when a guardrail ended the stream. The caller ends the client's stream in its dialect. */
  readonly stop: PhaseStop | undefined;
}

/** The texts of one stream: what was written for each, and whether the stream ended. */
export class WrittenTexts {
  readonly #phase: TextPhase;
  readonly #keepsWhole: boolean;
  readonly #open = new Map<string, StreamChannel>();
  readonly #written = new Map<string, string>();
  readonly #tokens = new Map<string, UnchangedTokens>();
  #stop: PhaseStop | undefined;
  #separate = 0;

  /** @param keepsWhole whether `whole` is used */
  constructor(phase: TextPhase, keepsWhole: boolean) {
    this.#phase = phase;
    this.#keepsWhole = keepsWhole;
  }

  get stop(): PhaseStop | undefined {
    return this.#stop;
  }

  /** The texts that have begun and not ended. */
  get open(): readonly StreamChannel[] {
    return [...this.#open.values()];
  }

  /** @param entries the log probabilities of the text */
  push(channel: StreamChannel, text: string, entries: readonly unknown[] = []): string {
    if (!this.#open.has(channel.key)) this.#open.set(channel.key, channel);
    let tokens = this.#tokens.get(channel.key);
    if (tokens === undefined) {
      tokens = new UnchangedTokens();
      this.#tokens.set(channel.key, tokens);
    }
    tokens.given(text, entries);
    return this.#note(channel.key, this.#phase.push(channel, text));
  }

  end(channel: StreamChannel): string {
    if (!this.#open.delete(channel.key)) return '';
    return this.#note(channel.key, this.#phase.end(channel));
  }

  /** The log probabilities of what was written since the last call. */
  tokens({ key }: Pick<StreamChannel, 'key'>): readonly unknown[] {
    return this.#tokens.get(key)?.take() ?? [];
  }

  /**
   * Evaluates the strings of a value whose texts are not joined over events, each as a whole text. Settings, ids and
   * media stay as they are.
   */
  separate(value: unknown, kind: TextKind): unknown {
    if (typeof value === 'string') {
      if (value === '' || isMedia(value)) return value;
      const channel = { key: `separate ${this.#separate}`, kind, isJson: false };
      this.#separate += 1;
      const { text: begun, stop } = this.#phase.push(channel, value);
      this.#stop ??= stop;
      if (stop !== undefined) return begun;
      const last = this.#phase.end(channel);
      this.#stop ??= last.stop;
      return begun + last.text;
    }
    if (Array.isArray(value)) return value.map((one) => this.separate(one, kind));
    return isObject(value) && !isExactNumber(value) ? this.separateMembers(value, kind) : value;
  }

  /**
   * @param without members that stay as they are
   * @returns the same object when nothing changed
   */
  separateMembers(value: StreamEvent, kind: TextKind, without: readonly string[] = []): StreamEvent {
    let changed: Record<string, unknown> | undefined;
    for (const name in value) {
      const one = value[name];
      if (one === null || (typeof one !== 'string' && typeof one !== 'object')) continue;
      if (isSetting(name) || without.includes(name)) continue;
      const evaluated = this.separate(one, kind);
      if (evaluated === one) continue;
      changed ??= { ...value };
      changed[name] = evaluated;
    }
    return changed ?? value;
  }

  /** All that was written for a text; undefined when it never began. */
  whole(key: string): string | undefined {
    return this.#written.get(key);
  }

  #note(key: string, { text, stop }: TextPhaseStep): string {
    this.#stop ??= stop;
    this.#tokens.get(key)?.written(text);
    if (this.#keepsWhole) this.#written.set(key, (this.#written.get(key) ?? '') + text);
    return text;
  }
}
