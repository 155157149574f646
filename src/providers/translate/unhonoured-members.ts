/**
 * Members of a chat completion request that some dialects lack. A value without effect (the default, or an empty one)
 * is accepted; any other is refused, since the answer would not match the request. With `strict_parameters: false` the
 * provider's operator has members ignored that only change how the model selects tokens (`sampling`).
 */
import { isObject } from '../../json/is-object.ts';
import type { JsonObject } from './json.ts';
import { type Refused, refuse } from './refusal.ts';

const oneAnswer = (value: unknown): boolean => value === 1;
const zero = (value: unknown): boolean => value === 0;
const off = (value: unknown): boolean => value === false;
const never = (): boolean => false;
const noEntries = (value: unknown): boolean =>
  (Array.isArray(value) && value.length === 0) || (isObject(value) && Object.keys(value).length === 0);
const textOnly = (value: unknown): boolean => Array.isArray(value) && value.every((entry) => entry === 'text');

/** Whether a value of the member has no effect. `null` never has one and is not checked here. */
const harmless = {
  audio: never,
  frequency_penalty: zero,
  function_call: never,
  functions: noEntries,
  logit_bias: noEntries,
  logprobs: off,
  modalities: textOnly,
  moderation: never,
  n: oneAnswer,
  parallel_tool_calls: (value: unknown) => value === true,
  prediction: never,
  presence_penalty: zero,
  seed: never,
  service_tier: (value: unknown) => value === 'auto' || value === 'default',
  top_logprobs: zero,
  verbosity: (value: unknown) => value === 'medium',
  web_search_options: never,
} as const satisfies Record<string, (value: unknown) => boolean>;

export type UnhonouredMember = keyof typeof harmless;

/** An answer without them is still an answer to the request. */
const sampling: ReadonlySet<UnhonouredMember> = new Set([
  'frequency_penalty',
  'logit_bias',
  'presence_penalty',
  'seed',
]);

/**
 * @param language name of the provider's dialect, for the message
 * @param options of the provider
 */
export function refusedMember(
  chat: JsonObject,
  members: readonly UnhonouredMember[],
  language: string,
  options: Readonly<Record<string, string>>,
): Refused | undefined {
  const isLenient = /^(?:false|no|off|0)$/i.test(options['strictParameters'] ?? '');
  for (const member of members) {
    const value = chat[member];
    if (value === undefined || value === null || harmless[member](value)) continue;
    if (isLenient && sampling.has(member)) continue;
    const message = `'${member}' cannot be honoured: ${language} has no such setting.`;
    return refuse('unsupported_parameter', member, message);
  }
  return undefined;
}

/** Hints to OpenAI's own service, which do not change the answer. */
const withoutEffect: ReadonlySet<string> = new Set([
  'client_metadata',
  'metadata',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'provider',
  'safety_identifier',
  'store',
  'stream_options',
  'user',
]);

/**
 * The members that are sent unchanged: all with a value, except those that the translator handles and those without
 * effect.
 */
export function unknownMembers(chat: JsonObject, handled: ReadonlySet<string>): JsonObject {
  return Object.fromEntries(
    Object.entries(chat).filter(
      ([member, value]) => value !== null && !handled.has(member) && !withoutEffect.has(member),
    ),
  );
}
