/** Events of a streamed message (Anthropic, "Streaming Messages"). */
import { isObject } from '../../../json/is-object.ts';
import { restoreValues } from '../body/restore-values.ts';
import type { StreamChannel } from '../guarded-text.ts';
import type { TextPhase } from '../phases/text-phase.ts';
import type { Placeholders } from '../placeholders.ts';
import { type GuardedEvents, type StreamEvent, WrittenTexts } from './guarded-events.ts';

/** The member with the text of each kind of delta. */
const deltaMembers: Readonly<Record<string, Pick<StreamChannel, 'kind' | 'isJson'> & { readonly member: string }>> = {
  text_delta: { member: 'text', kind: 'text', isJson: false },
  thinking_delta: { member: 'thinking', kind: 'reasoning', isJson: false },
  input_json_delta: { member: 'partial_json', kind: 'tool_arguments', isJson: true },
};

export class GuardedMessagesEvents implements GuardedEvents {
  readonly #texts: WrittenTexts;
  readonly #placeholders: Placeholders;
  /** The kind of delta of each open block. */
  readonly #deltaTypes = new Map<string, string>();

  constructor(phase: TextPhase, placeholders: Placeholders) {
    this.#texts = new WrittenTexts(phase, false);
    this.#placeholders = placeholders;
  }

  get stop(): GuardedEvents['stop'] {
    return this.#texts.stop;
  }

  events(event: StreamEvent): readonly StreamEvent[] {
    if (this.stop !== undefined) return [];
    const { type, index, delta } = event;
    if (type === 'content_block_delta' && isObject(delta)) return this.#delta(event, delta);
    const restored = this.#restored(event);
    if (type === 'content_block_stop')
      return this.stop === undefined ? [...this.#rest(String(index)), ...this.#unlessStopped(restored)] : [];
    if (type === 'content_block_start') return this.#start(event, restored);
    return [restored];
  }

  finish(): readonly StreamEvent[] {
    return this.stop === undefined ? this.#texts.open.flatMap(({ key }) => this.#rest(key)) : [];
  }

  #start(event: StreamEvent, restored: StreamEvent): readonly StreamEvent[] {
    const block = event['content_block'];
    if (!isObject(block)) return [restored];
    for (const member of ['text', 'thinking']) {
      const given = block[member];
      if (typeof given !== 'string' || given === '') continue;
      const type = `${member}_delta`;
      const first = { ...event, content_block: { ...block, [member]: '' } };
      const { index } = event;
      return [first, ...this.#delta({ type: 'content_block_delta', index }, { type, [member]: given })];
    }
    return [restored];
  }

  #delta(event: StreamEvent, delta: StreamEvent): readonly StreamEvent[] {
    const key = String(event['index']);
    const type = String(delta['type']);
    const known = deltaMembers[type];
    const given = known === undefined ? undefined : delta[known.member];
    if (known === undefined || typeof given !== 'string') {
      // A signature covers the thinking before it, which is complete.
      const rest = type === 'signature_delta' ? this.#rest(key) : [];
      return [...rest, ...this.#unlessStopped(this.#restored(event))];
    }
    this.#deltaTypes.set(key, type);
    const { member, kind, isJson } = known;
    const text = this.#texts.push({ key, kind, isJson }, given);
    return text === '' && given !== '' ? [] : [{ ...event, delta: { ...delta, [member]: text } }];
  }

  #rest(key: string): readonly StreamEvent[] {
    const channel = this.#texts.open.find((one) => one.key === key);
    const type = this.#deltaTypes.get(key);
    const known = deltaMembers[type ?? ''];
    if (channel === undefined || known === undefined) return [];
    const text = this.#texts.end(channel);
    if (text === '') return [];
    return [{ type: 'content_block_delta', index: Number(key), delta: { type, [known.member]: text } }];
  }

  #unlessStopped(event: StreamEvent): readonly StreamEvent[] {
    return this.stop === undefined ? [event] : [];
  }

  #restored(event: StreamEvent): StreamEvent {
    const evaluated = this.#texts.separateMembers(event, 'text');
    const restored = restoreValues(evaluated, this.#placeholders);
    return isObject(restored) ? restored : evaluated;
  }
}
