/** The model endpoints that are forwarded unchanged, one row each. */
import type { Family } from '../../providers/provider.ts';
import { type Refusal, refusals } from '../refusal.ts';
import type { Units } from './usage.ts';

/** The route, here and in the provider's OpenAI API. */
export type ForwardEndpoint =
  | '/v1/completions'
  | '/v1/audio/speech'
  | '/v1/audio/transcriptions'
  | '/v1/audio/translations'
  | '/v1/images/generations'
  | '/v1/images/edits'
  | '/v1/responses/input_tokens'
  | '/v1/responses/compact';

export interface ForwardOperation {
  readonly endpoint: ForwardEndpoint;
  readonly family: Family;
  /** Title as the subject of a sentence. */
  readonly title: string;
  readonly body: 'json' | 'form' | 'json or form';
  /** The content of its files and of its answers, which the record keeps only if the configuration says so. */
  readonly files?: 'audio' | 'image';
  readonly answers?: 'audio' | 'image';
  /** Its streams end with a finish reason or `[DONE]`; a stream without either was cut off. */
  readonly endsWithReason?: true;
  /** Members of the body that have no meaning here and that a provider would refuse. */
  readonly without?: readonly string[];
}

export const forwardOperations: readonly ForwardOperation[] = [
  {
    endpoint: '/v1/completions',
    family: 'completions',
    title: 'Text completion',
    body: 'json',
    endsWithReason: true,
  },
  { endpoint: '/v1/audio/speech', family: 'speech', title: 'Speech', body: 'json', answers: 'audio' },
  {
    endpoint: '/v1/audio/transcriptions',
    family: 'transcriptions',
    title: 'Audio transcription',
    body: 'form',
    files: 'audio',
  },
  {
    endpoint: '/v1/audio/translations',
    family: 'transcriptions',
    title: 'Audio translation',
    body: 'form',
    files: 'audio',
  },
  {
    endpoint: '/v1/images/generations',
    family: 'images',
    title: 'Image generation',
    body: 'json',
    answers: 'image',
  },
  {
    endpoint: '/v1/images/edits',
    family: 'images',
    title: 'Image editing',
    body: 'json or form',
    files: 'image',
    answers: 'image',
  },
  {
    endpoint: '/v1/responses/input_tokens',
    family: 'responses_input_tokens',
    title: 'Token counting',
    body: 'json',
    without: ['stream', 'stream_options'],
  },
  {
    endpoint: '/v1/responses/compact',
    family: 'responses_compact',
    title: 'Compaction',
    body: 'json',
    without: ['stream', 'stream_options'],
  },
];

/** A client may write any number. */
const MAX_IMAGES = 1_000_000;

/** The units of a request that are charged per piece: characters of speech input, generated images. */
export function requestedUnits(
  { family }: Pick<ForwardOperation, 'family'>,
  json: Readonly<Record<string, unknown>>,
): Units | undefined {
  if (family === 'speech') return typeof json.input === 'string' ? { inputCharacters: json.input.length } : undefined;
  if (family !== 'images') return undefined;
  // A form field is text.
  const images = Number(json.n ?? 1);
  return Number.isInteger(images) && images > 0 ? { outputImages: Math.min(images, MAX_IMAGES) } : undefined;
}

/** The refusal when a provider does not have the operation. */
export function notServed({ family, title }: Pick<ForwardOperation, 'family' | 'title'>): Refusal {
  const message = `${title} is not supported by this provider.`;
  return family.startsWith('responses_')
    ? refusals.unsupportedOperation(message)
    : refusals.unsupportedEndpoint(message);
}

/**
 * Whether a provider's refusal shows that it lacks the whole route, and not only a model or an object: a server
 * without the route sends no such code and does not repeat the name.
 */
export function isRouteMissing({ status, code, message }: Refusal, model: string): boolean {
  if (status === 405 || status === 501) return true;
  if (status !== 404 || /model|file_|batch/.test(code ?? '')) return false;
  return !/\bmodel\b/i.test(message) && (model === '' || !message.includes(model));
}
