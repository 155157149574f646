/**
 * The strings of a body that its dialect does not name as texts: members that the gateway does not know, settings and
 * ids. A provider may read any of them, so guardrails do too.
 */
import { isExactNumber } from '../../../json/exact-json.ts';
import { isObject } from '../../../json/is-object.ts';
import type { TextRole } from '../guarded-text.ts';
import { plainNumber } from '../text/json-text.ts';
import { type BodyTexts, type JsonPath, TextCollector, type TextOrigin, withContinuations } from './body-texts.ts';
import type { GuardedBody } from './guarded-body.ts';

/** Members whose strings are words of an API, or made by a machine: rules for texts do not apply to them. */
const settings: ReadonlySet<string> = new Set([
  ...['model', 'object', 'type', 'role', 'status', 'name', 'provider', 'phase', 'format', 'detail', 'mode', 'syntax'],
  ...['tool_choice', 'reasoning_effort', 'effort', 'summary', 'generate_summary', 'verbosity', 'service_tier'],
  ...['truncation', 'include', 'modalities', 'voice', 'size', 'quality', 'style', 'encoding_format', 'ttl', 'error'],
  ...['prompt_cache_key', 'prompt_cache_retention', 'finish_reason', 'stop_reason', 'system_fingerprint', 'logprobs'],
  ...['media_type', 'mime_type', 'search_context_size', 'ranker', 'strictness', 'require_approval', 'signature'],
  ...['encrypted_content', 'encrypted_index', 'obfuscation', 'enum', 'const', 'pattern', 'required', '$ref', 'url'],
  ...['image_url', 'file_url', 'file_data', 'data', 'thought_signature', 'custom_llm_provider', 'user_path'],
]);

/** Whether a member holds a word of an API, or an id. */
export function isSetting(name: string): boolean {
  return settings.has(name) || name.endsWith('id') || name.endsWith('ids');
}

/** A request in which every string is read. */
export function everyTextOfRequest(of: GuardedBody): GuardedBody {
  return {
    ...of,
    texts(body): BodyTexts {
      const texts = of.texts(body);
      const remaining = new RemainingTexts({ ...texts, parts: withContinuations(texts) }, 'user', true);
      remaining.add(body, [], false);
      return remaining;
    },
  };
}

/** Members in which an answer repeats its request. */
const repeated: ReadonlySet<string> = new Set([
  ...['instructions', 'metadata', 'tools', 'prompt', 'text', 'user', 'safety_identifier', 'reasoning', 'input'],
  ...['prompt_cache_options', 'conversation', 'stop_sequence'],
]);

/** An answer in which every string is read, except settings and ids, and what it repeats of its request. */
export function everyTextOfAnswer(of: GuardedBody): GuardedBody {
  return {
    ...of,
    texts(body): BodyTexts {
      const remaining = new RemainingTexts(of.texts(body), 'assistant', false);
      if (!isObject(body)) return remaining;
      for (const name in body) {
        if (!repeated.has(name) && !isSetting(name)) remaining.add(body[name], [name], false);
      }
      return remaining;
    },
  };
}

/** Whether a text is an image, a sound or a file, and no words. */
export function isMedia(text: string): boolean {
  return text.length >= shortestMedia && media.test(text);
}

/** Only numbers of nine digits or more are read: shorter ones are settings and counts. */
const longNumber = /^-?[0-9]{9,}$/;
/** Names of members that are more than words. */
const unusualName = /[^A-Za-z_$-]/;
/** Media in base64, also as a data URL. With white space it counts as text: words look like base64 in lines. */
const media = /^(?:data:[\w.+/-]*(?:;[\w=.+-]*)*;base64,)?[A-Za-z0-9+/_=-]*$/;
const shortestMedia = 256;

class RemainingTexts extends TextCollector {
  readonly #covered: ReadonlySet<string>;
  readonly #author: TextRole;
  readonly #readsSettings: boolean;

  constructor({ parts, places, unreadable }: BodyTexts, author: TextRole, readsSettings: boolean) {
    super();
    for (const part of parts) this.parts.push(part);
    for (const place of places) this.places.push(place);
    for (const path of unreadable) this.unreadable.push(path);
    this.#covered = new Set(places.map(({ path }) => keyOf(path)));
    this.#author = author;
    this.#readsSettings = readsSettings;
  }

  /** @param isBelowSetting whether a member above is a setting */
  add(value: unknown, path: JsonPath, isBelowSetting: boolean): void {
    if (this.#covered.has(keyOf(path))) return;
    if (typeof value === 'string' || typeof value === 'number' || isExactNumber(value)) {
      this.#scalar(value, path, isBelowSetting);
    } else if (Array.isArray(value)) {
      for (const [index, one] of value.entries()) this.add(one, [...path, index], isBelowSetting);
    } else if (isObject(value)) {
      for (const name in value) {
        const at = [...path, name];
        if (this.#readsSettings && unusualName.test(name)) this.name(at, this.#origin(true));
        this.add(value[name], at, isBelowSetting || isSetting(name));
      }
    }
  }

  #scalar(value: unknown, path: JsonPath, isSetting: boolean): void {
    if (isSetting && !this.#readsSettings) return;
    const origin = this.#origin(isSetting);
    if (typeof value !== 'string') {
      const number = plainNumber(JSON.stringify(value));
      if (longNumber.test(number)) this.add(number, path, isSetting);
    } else if (isMedia(value)) this.unread(path);
    else if (value !== '') this.text(value, path, origin);
  }

  #origin(isSetting: boolean): TextOrigin {
    return { role: this.#author, kind: isSetting ? 'other' : 'text', message: -1 };
  }
}

function keyOf(path: JsonPath): string {
  return path.join('\u0000');
}
