/** Azure OpenAI, with either form of its base URL. */
import { type BaseUrl, parseBaseUrl } from './base-url.ts';
import { createOpenAiCompatible } from './openai-compatible/openai-compatible.ts';
import type { Provider } from './provider.ts';
import type { ProviderConfig } from './provider-config.ts';
import type { ProviderType } from './types.ts';

const DEFAULT_API_VERSION = '2024-10-21';

/**
 * `https://X.openai.azure.com/openai/v1` names the deployment in the body, like OpenAI, and needs no `api-version`.
 * `https://X.openai.azure.com/openai/deployments/D` is the older form: one deployment, chat and embeddings only, and
 * `api-version` on every call. Its model listing contains deployable models, so the deployment itself is the list.
 */
export function createAzure(config: ProviderConfig, row: ProviderType): Provider {
  const base = parseBaseUrl(config.baseUrl, row.defaultPath);
  const deployment = /\/openai\/deployments\/([^/]+)$/.exec(base.path)?.[1];
  if (deployment === undefined) return createOpenAiCompatible(config, { row, base });
  const model = { id: decodeURIComponent(deployment), created: 0, ownedBy: 'azure' };
  return createOpenAiCompatible(config, {
    row: {
      ...row,
      responses: 'no',
      responseLifecycle: 'no',
      serves: ['completions', 'speech', 'transcriptions', 'images'],
    },
    base: versioned(base, config.options['apiVersion'] ?? DEFAULT_API_VERSION),
    listModels: async () => [model],
  });
}

function versioned(base: BaseUrl, apiVersion: string): BaseUrl {
  const query = new URLSearchParams(base.query);
  if (!query.has('api-version')) query.set('api-version', apiVersion);
  return { ...base, query: query.toString() };
}
