/**
 * TypeScript types of the API, generated from its OpenAPI document: `paths` by path and method, `operations` by
 * operation id, and `components`. The names and the structure are those of openapi-typescript.
 */
import type { ApiDocument } from '../src/http/api/openapi.ts';

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly items?: Schema | boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
  readonly description?: string;
}

interface Operation {
  readonly operationId: string;
  readonly summary?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content }>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: Schema;
}

type Content = Readonly<Record<string, { readonly schema?: Schema }>>;

const head = '/** Generated from the OpenAPI document by "npm run dashboard:types"; changes made here are lost. */\n';

/** @param document as a gateway serves it at `/openapi.json` */
export function apiTypes({ paths, components }: ApiDocument): string {
  const operations = new Map<string, string>();
  const byPath = Object.entries(paths).map(([path, methods]) => {
    const members = Object.entries(methods).map(([method, described]) => {
      const operation = described as unknown as Operation;
      operations.set(operation.operationId, operationType(operation));
      return member(method, `operations[${JSON.stringify(operation.operationId)}]`, { text: operation.summary });
    });
    return member(path, block(members));
  });
  const { schemas = {} } = (components ?? {}) as { schemas?: Readonly<Record<string, Schema>> };
  const shared = Object.entries(schemas).map(([name, schema]) => member(name, typeOf(schema)));
  return [
    head,
    `export interface paths ${block(byPath)}`,
    `export interface operations ${block([...operations].map(([id, text]) => member(id, text)))}`,
    `export interface components ${block([member('schemas', block(shared))])}`,
  ].join('\n');
}

function operationType({ parameters = [], requestBody, responses }: Operation): string {
  const places = ['query', 'header', 'path'].map((place) => {
    const here = parameters.filter((one) => one.in === place);
    const optional = !here.some(({ required }) => required === true);
    const members = here.map(({ name, required, schema, description }) =>
      member(name, typeOf(schema), { optional: required !== true, text: description }),
    );
    return member(place, here.length === 0 ? 'never' : block(members), { optional });
  });
  const body = requestBody === undefined ? 'never' : block([member('content', contentType(requestBody.content))]);
  const answers = Object.entries(responses).map(([status, { content }]) =>
    member(status, block([member('content', content === undefined ? 'never' : contentType(content))])),
  );
  return block([
    member('parameters', block(places)),
    member('requestBody', body, { optional: requestBody?.required !== true }),
    member('responses', block(answers)),
  ]);
}

function contentType(content: Content): string {
  return block(Object.entries(content).map(([type, { schema = {} }]) => member(type, typeOf(schema))));
}

function typeOf(schema: Schema | boolean): string {
  if (typeof schema === 'boolean') return schema ? 'unknown' : 'never';
  const { $ref, type, anyOf, oneOf, allOf } = schema;
  if ($ref !== undefined) return referenced($ref);
  if ('const' in schema) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return union(schema.enum.map((one) => JSON.stringify(one)));
  const alternatives = anyOf ?? oneOf;
  if (alternatives !== undefined) return union(alternatives.map(typeOf));
  if (allOf !== undefined) return allOf.map((one) => `(${typeOf(one)})`).join(' & ');
  if (Array.isArray(type)) return union(type.map((one) => typeOf({ ...schema, type: one })));
  if (type === 'object' || schema.properties !== undefined) return objectType(schema);
  if (type === 'array') return `(${typeOf(schema.items ?? true)})[]`;
  if (type === 'integer' || type === 'number') return 'number';
  return type === 'string' || type === 'boolean' || type === 'null' ? type : 'unknown';
}

/** `#/components/schemas/Error` */
function referenced(reference: string): string {
  const name = reference.slice(reference.lastIndexOf('/') + 1);
  return `components["schemas"][${JSON.stringify(name)}]`;
}

function union(types: readonly string[]): string {
  return types.length === 0 ? 'never' : [...new Set(types)].join(' | ');
}

/** Without `additionalProperties`, JSON Schema allows every other member; the types then name only the known ones. */
function objectType({ properties = {}, required = [], additionalProperties }: Schema): string {
  const known = Object.entries(properties).map(([name, one]) =>
    member(name, typeOf(one), { optional: !required.includes(name), text: one.description }),
  );
  const isOpen = typeof additionalProperties === 'object' || additionalProperties === true;
  if (!isOpen) return known.length > 0 || additionalProperties === false ? block(known) : 'Record<string, unknown>';
  const others = `{ [name: string]: ${typeOf(additionalProperties)} }`;
  return known.length === 0 ? others : `${block(known)} & ${others}`;
}

function member(name: string, type: string, { optional = false, text }: { optional?: boolean; text?: string } = {}) {
  const comment = text === undefined || text === '' ? '' : `/** ${text.replaceAll('*/', '* /')} */\n`;
  return `${comment}${JSON.stringify(name)}${optional ? '?' : ''}: ${type};`;
}

function block(members: readonly string[]): string {
  return members.length === 0 ? '{}' : `{\n${members.join('\n').replace(/^/gm, '  ')}\n}`;
}
