/** What is told of one route. */
import type { z } from 'zod';

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
  /** `type`: the media type, when it is not the usual one for the schema. */
  readonly request?: { readonly required: boolean; readonly schema: z.ZodType | 'any'; readonly type?: string };
  readonly success: Answer;
  readonly otherAnswers?: Readonly<Record<string, Answer>>;
  /** Statuses that come with the error envelope. */
  readonly errors: readonly number[];
  /** `MessagesError`: they come in Anthropic's envelope. */
  readonly errorSchema?: 'Error' | 'MessagesError';
  /** Needs no key. */
  readonly open?: boolean;
}
