/** docs/api.md, the reference of all routes, generated from their declarations. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { loadConfig } from '../src/config/load-config.ts';
import { startGateway } from '../src/gateway.ts';
import type { ApiDocument } from '../src/http/api/openapi.ts';
import { providerTypes } from '../src/providers/types.ts';
import { cell, type JsonSchema, rowsOf, typeText } from './schema-rows.ts';

export const apiDocumentPath = 'docs/api.md';

/** The document of a gateway that has every optional route, as it serves it. */
export async function servedApiDocument(): Promise<ApiDocument> {
  const dataDir = mkdtempSync(join(tmpdir(), 'chancery-api-'));
  const env = { DATA_DIR: dataDir, GATEWAY_MASTER_KEY: 'for-the-document', METRICS_ENABLED: 'true' };
  const loaded = loadConfig({ flags: {}, env, cwd: dataDir, providerTypes });
  if (!loaded.ok) throw new Error(loaded.problems.map(({ message }) => message).join('\n'));
  const config = { ...loaded.config, server: { ...loaded.config.server, port: 0 } };
  const gateway = await startGateway(config, 'for-the-document', pino({ level: 'silent' }));
  try {
    return (await (await fetch(`${gateway.url}/openapi.json`)).json()) as ApiDocument;
  } finally {
    await gateway.stop('the document was read');
    rmSync(dataDir, { recursive: true, force: true });
  }
}

interface Described {
  readonly summary?: string;
  readonly description?: string;
  readonly tags: readonly string[];
  readonly 'x-access'?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly required: boolean; readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>;
}

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly description?: string;
  readonly required?: boolean;
  readonly schema: JsonSchema;
}

type Content = Readonly<Record<string, { readonly schema?: JsonSchema; readonly example?: unknown }>>;

const head = `<!-- Generated from the declarations of the routes by "npm run docs:api"; changes made here are lost. -->
# API reference

Every route with its parameters, bodies and errors. Errors have the envelope \`{"error": {"type", "code", "message", "param"}}\`; routes under \`/v1/messages\` have Anthropic's. \`GET /openapi.json\` of a gateway serves the same as an OpenAPI 3.1 document.

Access: \`public\` needs no key; \`any-key\` any valid key, which sees its own objects; \`scoped-admin\` a key with \`dashboard_access\`, for its subtree; \`global-admin\` an administrator of everything; \`metrics\` the metrics key or an unrestricted key.
`;

export function apiReference({ paths }: ApiDocument): string {
  const byTag = new Map<string, string[]>();
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const described = operation as unknown as Described;
      const tag = described.tags[0] ?? '';
      const sections = byTag.get(tag) ?? [];
      sections.push(section(`${method.toUpperCase()} ${path}`, described));
      byTag.set(tag, sections);
    }
  }
  const parts = [...byTag].map(([tag, sections]) => `## ${tag}\n\n${sections.join('\n')}`);
  return `${[head, ...parts].join('\n').trimEnd()}\n`;
}

function section(title: string, operation: Described): string {
  const { summary = '', description, parameters = [], requestBody, responses } = operation;
  const lines = [
    `### \`${title}\`\n`,
    `${summary}. ${description ?? ''}`.trim(),
    '',
    `Access: \`${operation['x-access']}\`.\n`,
  ];
  if (parameters.length > 0) {
    lines.push('| Parameter | Type | Meaning |', '|---|---|---|');
    for (const one of parameters) {
      const kind = one.required === true ? one.in : `${one.in}, optional`;
      lines.push(
        `| \`${one.name}\` (${kind}) | ${typeText(one.schema)}${range(one.schema)} | ${cell(one.description ?? '')} |`,
      );
    }
    lines.push('');
  }
  for (const [type, { schema = {}, example }] of Object.entries(requestBody?.content ?? {})) {
    const rows = rowsOf(schema, '');
    lines.push(`Body (\`${type}\`)${rows.length === 0 ? '.' : ':'}\n`);
    if (rows.length > 0) lines.push('| Member | Type | Meaning |', '|---|---|---|', ...rows, '');
    if (example !== undefined) lines.push('```json', JSON.stringify(example, undefined, 2), '```', '');
  }
  const errors: string[] = [];
  for (const [status, { description: text, content = {} }] of Object.entries(responses)) {
    if (Number(status) >= 400 && JSON.stringify(content).includes('#/components/schemas/')) {
      errors.push(status);
      continue;
    }
    const types = Object.keys(content).map((type) => `\`${type}\``);
    lines.push(`${status}: ${text}${types.length === 0 ? '' : ` (${types.join(', ')})`}.\n`);
    const rows = rowsOf(itemsOrSelf(content['application/json']?.schema ?? {}), '');
    if (rows.length > 0) lines.push('| Member | Type | Meaning |', '|---|---|---|', ...rows, '');
  }
  if (errors.length > 0) lines.push(`Errors: ${errors.join(', ')}.\n`);
  return lines.join('\n');
}

function itemsOrSelf(schema: JsonSchema): JsonSchema {
  return schema.type === 'array' && typeof schema.items === 'object' && !Array.isArray(schema.items)
    ? schema.items
    : schema;
}

function range({ minimum, maximum, default: usual }: JsonSchema): string {
  const bounds = [minimum, maximum].every((one) => one === undefined) ? '' : ` ${minimum ?? ''}–${maximum ?? ''}`;
  return `${bounds}${usual === undefined ? '' : `, default \`${String(usual)}\``}`;
}
