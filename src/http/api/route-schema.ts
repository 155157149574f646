/**
 * The declaration of a route: Fastify's route options with zod schemas. Each route declares once its method and path,
 * the schemas of its query, body and answers, its errors, its access class and an example. Validation, the types of its
 * handler, the OpenAPI document, the reference in `docs/api.md` and the checks of the tests derive from it.
 *
 * On admin routes, body and query are validated before the handler runs, and the handler receives the parsed values. On
 * all other routes they only describe the request: the bytes of the body and the text of the query stay as they are.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type {
  FastifyBaseLogger,
  FastifyContextConfig,
  FastifyInstance,
  FastifySchema,
  FastifyTypeProvider,
  RawServerDefault,
} from 'fastify';
import { z } from 'zod';

/** The types of a handler's request, derived from the schemas of its route. Answers are checked by the tests. */
export interface ZodTypes extends FastifyTypeProvider {
  validator: this['schema'] extends z.ZodType ? z.output<this['schema']> : unknown;
  serializer: unknown;
}

/** The instance on which routes are registered. */
export type Routes = FastifyInstance<RawServerDefault, IncomingMessage, ServerResponse, FastifyBaseLogger, ZodTypes>;

export type Tag =
  | 'models'
  | 'responses'
  | 'realtime'
  | 'conversations'
  | 'files'
  | 'passthrough'
  | 'mcp'
  | 'admin'
  | 'operations';

/** An answer: its description, and the schema of its body by media type. */
export interface AnswerSchema {
  readonly description: string;
  /** Absent when the answer has no body. A plain object is a JSON schema. */
  readonly content?: Readonly<Record<string, { readonly schema: z.ZodType | JsonSchema }>>;
}

export type JsonSchema = Readonly<Record<string, unknown>>;

declare module 'fastify' {
  interface FastifySchema {
    /** In camel case, unique; default: derived from method and path. */
    operationId?: string;
    /** One line, without a period. */
    summary?: string;
    description?: string;
    /** Default: `admin` for admin routes. */
    tag?: Tag;
    /** Request headers that the route reads, by name. They are described and not validated. */
    requestHeaders?: Readonly<Record<string, z.ZodType>>;
    /** Statuses with the error envelope beside those that every such route has (`errorsOf`). */
    errors?: readonly number[];
    /** Media type of the request's body; default: JSON. */
    bodyType?: string;
    /** A body as an example; it satisfies the schema of the body. */
    example?: unknown;
  }
}

/** A JSON answer. */
export const jsonAnswer = (description: string, schema: z.ZodType | JsonSchema): AnswerSchema => ({
  description,
  content: { 'application/json': { schema } },
});

/** An answer that is JSON, or a stream of events when the request says so. */
export const jsonOrEventsAnswer = (description: string, schema: z.ZodType): AnswerSchema => ({
  description,
  content: { 'application/json': { schema }, 'text/event-stream': { schema: { type: 'string' } } },
});

/** An answer of another media type. */
export const mediaAnswer = (description: string, type: string, schema: JsonSchema = {}): AnswerSchema => ({
  description,
  content: { [type]: { schema } },
});

/** An answer without a body. */
export const emptyAnswer = (description: string): AnswerSchema => ({ description });

/** Parameters in the path, with their descriptions. */
export function pathParameters<Name extends string>(
  described: Readonly<Record<Name, string>>,
): z.ZodType<Record<Name, string>> {
  const members = Object.entries<string>(described).map(([name, text]) => [name, z.string().describe(text)]);
  return z.object(Object.fromEntries(members)) as never;
}

/** What a declaration consists of beside its access class, `operationId` (camel case, unique) and `summary`. */
interface Declaration extends FastifySchema, Pick<FastifyContextConfig, 'etag' | 'ifMatch'> {
  /** Whether HEAD is answered too; default: yes for GET. */
  readonly exposeHeadRoute?: boolean;
}

const routeFor =
  (access: FastifyContextConfig) =>
  <const Declared extends Declaration>(operationId: string, summary: string, declared: Declared) => {
    const { etag, ifMatch, exposeHeadRoute = true, ...schema } = declared;
    const conditions = { ...(etag && { etag }), ...(ifMatch !== undefined && { ifMatch }) };
    return { exposeHeadRoute, config: { ...access, ...conditions }, schema: { operationId, summary, ...schema } };
  };

/** A route without a key. */
export const publicRoute = routeFor({ access: 'public' });

/** A route for every key. */
export const anyKey = routeFor({ access: 'any-key' });

/** A route for every key that runs an exchange, which checks the rate limits. */
export const exchangeRoute = routeFor({ access: 'any-key', limits: 'exchange' });

/** A route for administrators of a subtree, who see and change only its content, and of the whole gateway. */
export const scopedAdmin = routeFor({ access: 'scoped-admin' });

/** A route for administrators of the whole gateway. */
export const globalAdmin = routeFor({ access: 'global-admin' });
