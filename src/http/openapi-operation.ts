/** The description of one route, and the parts that many routes share. */
import { z } from 'zod';

interface Answer {
  readonly description: string;
  /** By media type; a plain object is a JSON schema already. */
  readonly content?: Readonly<Record<string, z.ZodType | Readonly<Record<string, unknown>>>>;
}

export interface Parameter {
  readonly name: string;
  readonly in: 'query' | 'header';
  readonly description: string;
  readonly schema: z.ZodType;
}

export interface Operation {
  readonly operationId: string;
  readonly methods: readonly string[];
  /** With `{name}` for each parameter. */
  readonly path: string;
  readonly summary: string;
  readonly description?: string;
  readonly tag: 'models' | 'responses' | 'conversations' | 'files' | 'passthrough' | 'admin' | 'operations';
  readonly pathParameters?: Readonly<Record<string, string>>;
  readonly parameters?: readonly Parameter[];
  /** `type`: the media type, when it is not the default of the schema. */
  readonly request?: { readonly required: boolean; readonly schema: z.ZodType | 'any'; readonly type?: string };
  /** `status`: 200 when not given. */
  readonly success: Answer & { readonly status?: number };
  readonly otherAnswers?: Readonly<Record<string, Answer>>;
  /** Statuses answered with the error envelope. */
  readonly errors: readonly number[];
  /** `MessagesError`: errors are in Anthropic's envelope. */
  readonly errorSchema?: 'Error' | 'MessagesError';
  /** Needs no key. */
  readonly open?: boolean;
}

export const textMedia = { type: 'string' };
export const json = (schema: z.ZodType) => ({ 'application/json': schema });
export const jsonOrStream = (schema: z.ZodType) => ({ 'application/json': schema, 'text/event-stream': textMedia });

export const query = (name: string, description: string, schema: z.ZodType = z.string()): Parameter => ({
  name,
  in: 'query',
  description,
  schema,
});

export const header = (name: string, description: string, schema: z.ZodType = z.string()): Parameter => ({
  name,
  in: 'header',
  description,
  schema,
});

/** @param order the property by which the entries are ordered */
export const pageParameters = (order: string): Parameter[] => [
  query('limit', 'At most 100', z.int().default(20)),
  query('order', order, z.enum(['asc', 'desc']).default('desc')),
  query('after', 'The id of the entry before the page'),
];

export const requestIdHeader = header(
  'X-Request-ID',
  'Comes back on the answer, and goes to the provider. Made up when absent.',
  z.string().max(200),
);

/** Optional headers of a model request. */
export const requestHeaders: readonly Parameter[] = [
  requestIdHeader,
  header(
    'Idempotency-Key',
    'For 24 hours, the same key with the same body gives the same answer again, without another call',
    z.string().max(255),
  ),
];

export const modelErrors = [400, 401, 404, 409, 413, 415, 429, 502, 503, 504];
