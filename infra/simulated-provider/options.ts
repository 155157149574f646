/** Options of a simulated provider. */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { JsonObject } from './json.ts';

export interface SimulatedModel {
  readonly id: string;
  /** The `meta` object with which llama.cpp describes a model. */
  readonly meta?: JsonObject;
}

/** `absent`: every path of the family is a 404, as in a llama.cpp that lacks it. */
export type Offer = 'native' | 'absent';

/** The paths of a family, which are present or absent together. */
export const FAMILIES = {
  chat: '/v1/chat',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
  responses: '/v1/responses',
  messages: '/v1/messages',
  files: '/v1/files',
  batches: '/v1/batches',
  audio: '/v1/audio',
  images: '/v1/images',
  ollama: '/api',
} as const;

export type Family = keyof typeof FAMILIES;

/** Each family is `native` by default. */
export interface SimulatedProviderOptions extends Readonly<Partial<Record<Family, Offer>>> {
  readonly models?: readonly (string | SimulatedModel)[];
  /** Refuse models that are not listed with a 404. Otherwise every id is answered, as llama.cpp does. */
  readonly strictModels?: boolean;
  /** When given, `Authorization: Bearer <apiKey>` or `X-Api-Key: <apiKey>` is demanded. */
  readonly apiKey?: string;
  /** Milliseconds between stream frames; 0 is as fast as it goes, one write per frame. */
  readonly paceMs?: number;
  /** Length of an ordinary answer, in tokens. */
  readonly words?: number;
  /** For `/props`; the route is absent when `false`. Ollama's `/api/show` returns the same context window. */
  readonly props?: false | { readonly contextWindow?: number; readonly modalities?: Readonly<Record<string, boolean>> };
  /** Number of requests that are kept. */
  readonly remember?: number;
  /** How long a response in the background or a batch takes, in milliseconds; it is queued for half of that. */
  readonly backgroundMs?: number;
  /** Takes over requests for an upgrade. Otherwise they are answered like any other. */
  readonly upgrade?: (request: IncomingMessage, socket: Duplex, head: Buffer) => void;
}

export const MODELS = ['simulated-small', 'simulated-large', 'simulated-embed'] as const;
export const CONTEXT_WINDOW = 4096;

export function familyNamed(name: string): Family | undefined {
  return Object.keys(FAMILIES).find((family): family is Family => family === name);
}
