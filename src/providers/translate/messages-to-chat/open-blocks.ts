/** The open content blocks of a streamed message. Each produces its events while it grows. */
import { parsedObject } from '../json.ts';
import type { BlockDelta, ContentBlock, TextBlock, ThinkingBlock, ToolUseBlock } from './message-object.ts';
import { signatureOf } from './thinking.ts';

export interface OpenBlock {
  readonly kind: ContentBlock['type'];
  /** Whether enough is known for its start event. */
  readonly canBegin: boolean;
  /** Whether it may end: nothing more is expected once another block has begun. */
  readonly canEnd: boolean;
  /** The block in its start event. */
  empty(): ContentBlock;
  /** The additions since the last call. */
  take(): BlockDelta[];
  /** The final deltas at its end. */
  last(): BlockDelta[];
  read(): ContentBlock;
}

export class OpenText implements OpenBlock {
  readonly kind = 'text';
  readonly canBegin = true;
  readonly canEnd = true;
  #text = '';
  /** Kept beside the whole text: a part of a long text that grows cannot be read without copying all of it. */
  #unsent = '';

  add(text: string): void {
    this.#text += text;
    this.#unsent += text;
  }

  empty(): TextBlock {
    return { type: 'text', text: '' };
  }

  take(): BlockDelta[] {
    const text = this.#unsent;
    this.#unsent = '';
    return text === '' ? [] : [{ type: 'text_delta', text }];
  }

  last(): BlockDelta[] {
    return [];
  }

  read(): TextBlock {
    return { type: 'text', text: this.#text };
  }
}

export class OpenThinking implements OpenBlock {
  readonly kind = 'thinking';
  readonly canBegin = true;
  readonly canEnd = true;
  readonly #sealed: boolean;
  #text = '';
  #unsent = '';

  constructor(sealed: boolean) {
    this.#sealed = sealed;
  }

  add(text: string): void {
    this.#text += text;
    this.#unsent += text;
  }

  empty(): ThinkingBlock {
    return { type: 'thinking', thinking: '', signature: '' };
  }

  take(): BlockDelta[] {
    if (this.#sealed) return [];
    const thinking = this.#unsent;
    this.#unsent = '';
    return thinking === '' ? [] : [{ type: 'thinking_delta', thinking }];
  }

  last(): BlockDelta[] {
    return [{ type: 'signature_delta', signature: this.#signature() }];
  }

  read(): ThinkingBlock {
    return { type: 'thinking', thinking: this.#sealed ? '' : this.#text, signature: this.#signature() };
  }

  #signature(): string {
    return signatureOf(this.#sealed ? this.#text : '');
  }
}

export class OpenToolUse implements OpenBlock {
  readonly kind = 'tool_use';
  /** May be set until the block has begun. */
  id: string;
  #name: string | undefined;
  #extra: unknown;
  #json = '';
  #unsent = '';
  #isWhole = false;

  constructor(id: string) {
    this.id = id;
  }

  get canBegin(): boolean {
    return this.#name !== undefined;
  }

  /** Once its input is a whole object, since the pieces of parallel calls may alternate. */
  get canEnd(): boolean {
    return this.#isWhole;
  }

  add(name: string | undefined, json: string, extra: unknown): void {
    this.#name ??= name;
    this.#extra ??= extra;
    if (json === '' || this.#isWhole) return;
    this.#json += json;
    this.#unsent += json;
    // Only white space can follow a whole object. Most pieces cannot be the end of one.
    this.#isWhole = json.trimEnd().endsWith('}') && this.#input() !== undefined;
  }

  empty(): ToolUseBlock {
    const { id } = this;
    const block = { type: 'tool_use' as const, id, name: this.#name ?? '', input: {} };
    return this.#extra === undefined ? block : { ...block, extra_content: this.#extra };
  }

  take(): BlockDelta[] {
    const partial_json = this.#unsent;
    this.#unsent = '';
    return partial_json === '' ? [] : [{ type: 'input_json_delta', partial_json }];
  }

  last(): BlockDelta[] {
    return [];
  }

  read(): ToolUseBlock {
    return { ...this.empty(), input: this.#json.trim() === '' ? {} : (this.#input() ?? this.#json) };
  }

  #input(): object | undefined {
    return parsedObject(this.#json);
  }
}
