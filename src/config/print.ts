/** The configuration in force, as an equivalent YAML file with masked secrets. */

import { z } from 'zod';
import type { Config } from './config.ts';
import { mask, maskAddress } from './mask.ts';
import { isMapping, type Origin, type RawSettings } from './problem.ts';
import { fileSchema, type ProviderTypes } from './schema.ts';
import { factsAt, initialOf, isSecretAt } from './setting.ts';
import { loadYaml } from './sources.ts';

/** By the name of a guardrail type: its settings that are secrets. */
export type GuardrailSecrets = Readonly<Record<string, readonly string[]>>;

interface PrintedTypes {
  readonly providers: ProviderTypes;
  readonly guardrailSecrets: GuardrailSecrets;
}

/** Each value that is not a default has a comment that says where it comes from. */
export function printConfig(config: Config, rawSettings: RawSettings, types: PrintedTypes): string {
  const yaml = loadYaml();
  const schema = fileSchema(types.providers);
  const maskingOf = (path: readonly string[]) =>
    isSecretAt(schema, path) ||
    rawSettings.hasFileContent(rawSettings.get(path)) ||
    isGuardrailSecret(path, rawSettings, types.guardrailSecrets)
      ? mask
      : (factsAt(schema, path)?.masking ?? maskAddress);
  const document = new yaml.Document(masked(merged(initialOf(schema), rawSettings.tree), [], maskingOf));
  yaml.visit(document, {
    Pair(_, pair, ancestors) {
      const above = ancestors.filter((node) => yaml.isPair(node)).map((node) => String(node.key));
      const path = [...above, String(pair.key)];
      if (rawSettings.get(path) !== undefined && yaml.isScalar(pair.value))
        pair.value.comment = from(rawSettings.origin(path));
    },
  });
  document.commentBefore = headOf(config);
  return document.toString({ lineWidth: 0 });
}

/** `guardrails.rules.<n>.config.<key>`. Of an unknown type, or of a plugin, any setting may be a secret. */
function isGuardrailSecret(path: readonly string[], rawSettings: RawSettings, secrets: GuardrailSecrets): boolean {
  const [section, list, row = '', member, key = ''] = path;
  if (section === 'plugins' && list === 'load' && member === 'config' && path.length > 4) return true;
  if (section !== 'guardrails' || list !== 'rules' || member !== 'config' || path.length < 5) return false;
  const type = rawSettings.get(['guardrails', 'rules', row, 'type']);
  const known = typeof type === 'string' && Object.hasOwn(secrets, type) ? secrets[type] : undefined;
  return known === undefined || known.includes(key);
}

function headOf(config: Config): string {
  const providers = config.providers.map(({ name }) => name).join(', ') || 'none';
  return [` providers in force: ${providers}`, ...config.notices.map((notice) => ` note: ${notice}`)].join('\n');
}

function from({ source, variable }: Origin): string {
  return ` from ${variable ?? (source === 'file' ? 'the file' : `the ${source}`)}`;
}

function merged(under: unknown, over: unknown): unknown {
  if (!isMapping(under) || !isMapping(over)) return over === undefined ? under : over;
  const keys = new Set([...Object.keys(under), ...Object.keys(over)]);
  return Object.fromEntries([...keys].map((key) => [key, merged(under[key], over[key])]));
}

type MaskingOf = (path: readonly string[]) => (value: string) => string;

function masked(node: unknown, path: readonly string[], maskingOf: MaskingOf): unknown {
  if (Array.isArray(node)) return node.map((entry, index) => masked(entry, [...path, String(index)], maskingOf));
  if (isMapping(node)) {
    return Object.fromEntries(
      Object.entries(node).map(([key, value]) => [key, masked(value, [...path, key], maskingOf)]),
    );
  }
  const masking = maskingOf(path);
  return typeof node === 'string' || masking === mask ? masking(String(node)) : node;
}

/** The JSON Schema of chancery.yaml, for editors: `# yaml-language-server: $schema=…`. */
export function configJsonSchema(types: ProviderTypes): object {
  return { ...z.toJSONSchema(fileSchema(types), { io: 'input', unrepresentable: 'any' }), title: 'chancery.yaml' };
}
