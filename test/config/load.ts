/** Loads a configuration from literal sources: a folder with `.env` and chancery.yaml, variables, flags. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Config } from '../../src/config/config.ts';
import { type LoadedConfig, loadConfig } from '../../src/config/load-config.ts';
import { describeProblem, type Problem } from '../../src/config/problem.ts';
import type { ProviderTypes } from '../../src/config/schema.ts';

export const types: ProviderTypes = {
  openai: { keyless: false, requiresBaseUrl: false, defaultBaseUrl: 'https://api.openai.com/v1' },
  azure: { keyless: false, requiresBaseUrl: true, extra: { API_VERSION: 'apiVersion' } },
  llamacpp: { keyless: true, requiresBaseUrl: true, isLocal: true },
  ollama: {
    keyless: true,
    requiresBaseUrl: false,
    isLocal: true,
    defaultBaseUrl: 'http://localhost:11434/v1',
    extra: { STRICT_PARAMETERS: 'strictParameters' },
  },
  bedrock: { keyless: true, requiresBaseUrl: true },
  'bedrock-mantle': { keyless: true, requiresBaseUrl: true },
};

export interface Written {
  readonly flags?: Record<string, string>;
  readonly env?: Record<string, string>;
  readonly dotenv?: string;
  readonly yaml?: string;
}

export function load({ flags = {}, env = {}, dotenv, yaml }: Written): LoadedConfig & { readonly cwd: string } {
  const cwd = mkdtempSync(join(tmpdir(), 'chancery-config-'));
  try {
    if (dotenv !== undefined) writeFileSync(join(cwd, '.env'), dotenv);
    if (yaml !== undefined) writeFileSync(join(cwd, 'chancery.yaml'), yaml);
    return { ...loadConfig({ flags, env, cwd, providerTypes: types }), cwd };
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

export function configFrom(written: Written): Config {
  const loaded = load(written);
  if (!loaded.ok) throw new Error(loaded.problems.map(describeProblem).join('\n'));
  return loaded.config;
}

export function problemsFrom(written: Written): readonly Problem[] {
  const loaded = load(written);
  return loaded.ok ? [] : loaded.problems;
}

/** Providers by name. */
export function providersFrom(written: Written) {
  return new Map(configFrom(written).providers.map((provider) => [provider.name, provider]));
}
