/**
 * Converts an administrator's fields to a command with sealed secrets, and stored settings to a provider's
 * configuration.
 */
import type { EventContext } from '../../events/event.ts';
import { createProvider } from '../../providers/create-provider.ts';
import type { ProviderConfig } from '../../providers/provider.ts';
import { withoutProxy } from '../../providers/proxies.ts';
import { providerType } from '../../providers/types.ts';
import { refusals } from '../refusal.ts';
import { type Credential, type CredentialCommand, KEPT, type Sealer, type UrlInput } from './credential.ts';
import { type CredentialBody, isMask, ownFields, readUrl, urlSchemes } from './credential-fields.ts';

/** Provides the sealing key. */
export interface SealerSource {
  /** Creates the key when there is none. @throws Error with the reason */
  toSeal(): Sealer;
  /** @throws Error with the reason */
  toOpen(): Sealer;
}

const NAME = /^[a-z0-9][a-z0-9._-]{0,99}$/i;

/** @throws Refusal 400 with `param`, 503 when there is no key to seal with */
export function saveCommand(body: CredentialBody, source: SealerSource, context: EventContext): CredentialCommand {
  const { name, type, api_keys: keys = [], models = [], models_mode: modelsMode } = body;
  if (!NAME.test(name)) {
    const what = "letters, digits, '.', '_' and '-', up to 100 of them, and begin with a letter or digit";
    throw refusals.invalidRequest(`'name' must be ${what}.`, 'name');
  }
  const facts = providerType(type);
  if (facts === undefined) throw refusals.invalidRequest(`There is no provider type '${type}'.`, 'type');
  if (!facts.keyless && keys.length === 0) {
    throw refusals.invalidRequest(`A provider of type '${type}' needs at least one API key.`, 'api_keys');
  }
  if (facts.requiresBaseUrl && (body.base_url ?? '') === '') {
    throw refusals.invalidRequest(`A provider of type '${type}' has no usual address: it needs one.`, 'base_url');
  }
  if (body.session_sticky_keys === true) {
    throw refusals.unsupportedParameter('session_sticky_keys', 'the keys of a provider are used in rotation.');
  }
  const options = optionsOf(body);
  const sealer = orUnavailable(() => source.toSeal());
  const url = (field: 'base_url' | 'proxy_url') => urlInput(name, field, body[field], sealer);
  const input = {
    name,
    type,
    enabled: body.enabled,
    apiKeys: keys.map((key) => (isMask(key) ? KEPT : sealer.seal(name, 'api_keys', key))),
    baseUrl: url('base_url'),
    proxyUrl: url('proxy_url'),
    models: [...new Set(models)],
    ...(modelsMode === undefined ? {} : { modelsMode }),
    options,
  };
  checkOptions(input, facts.defaultBaseUrl);
  return { kind: 'save', input, keyId: sealer.keyId, context };
}

/** The settings of the type itself, without empty ones. @throws Refusal for a setting of another type */
function optionsOf(body: CredentialBody): Record<string, string> {
  const own = ownFields(body.type);
  const options: Record<string, string> = {};
  for (const [name, value] of Object.entries(body)) {
    if (commonFields.has(name) || typeof value !== 'string' || value === '') continue;
    if (!own.has(name)) {
      throw refusals.invalidRequest(`A provider of type '${body.type}' has no '${name}'.`, name);
    }
    options[name] = value;
  }
  return options;
}

const commonFields: ReadonlySet<string> = new Set(['name', 'type', 'base_url', 'proxy_url', 'models_mode']);

function urlInput(
  provider: string,
  field: keyof typeof urlSchemes,
  text: string | undefined,
  sealer: Sealer,
): UrlInput | undefined {
  if (text === undefined || text === '') return undefined;
  if (field === 'proxy_url' && text === 'none') return { shown: text, sealed: undefined };
  const url = readUrl(text, urlSchemes[field]);
  if (url === undefined) {
    const begins = urlSchemes[field]
      .map((scheme) => `${scheme}://`)
      .join(', ')
      .replace(/, (?=[^,]*$)/, ' or ');
    throw refusals.invalidRequest(`'${field}' must be an address that begins with ${begins}.`, field);
  }
  const { shown, hasSecret, isMasked } = url;
  if (isMasked) return { shown, sealed: KEPT };
  return { shown, sealed: hasSecret ? sealer.seal(provider, field, text) : undefined };
}

/** Refuses settings that the provider itself would not accept, before they are stored. @throws Refusal */
function checkOptions(
  { name, type, options }: Pick<Credential, 'name' | 'type' | 'options'>,
  usualUrl: string | undefined,
) {
  const baseUrl = usualUrl ?? 'http://localhost/v1';
  const config = { name, type, baseUrl, apiKeys: [], models: [], modelsMode: 'fallback' as const };
  try {
    const unused = { source: 'file', proxyOf: withoutProxy } as const;
    void createProvider({ ...config, options: providerOptions(type, options), ...unused }).close();
  } catch (error) {
    const [field = null] = Object.keys(options);
    throw refusals.invalidRequest(error instanceof Error ? `${error.message}.` : String(error), field);
  }
}

function orUnavailable(sealer: () => Sealer): Sealer {
  try {
    return sealer();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw refusals.featureUnavailable(`Nothing can be stored: ${why}.`);
  }
}

/**
 * The configuration of a stored provider, with its secrets.
 * @throws Error with the reason why they cannot be opened
 */
export function openCredential(
  { name, type, apiKeys, models, options, ...rest }: Credential,
  source: SealerSource,
  usualMode: ProviderConfig['modelsMode'],
): ProviderConfig {
  const open = (field: string, sealed: string): string => {
    try {
      return source.toOpen().open(name, field, sealed);
    } catch (error) {
      throw new Error(`its ${field} cannot be opened: ${error instanceof Error ? error.message : error}`);
    }
  };
  const url = (field: string, shown: string | undefined, sealed: string | undefined) =>
    sealed === undefined ? shown : open(field, sealed);
  const proxyUrl = url('proxy_url', rest.proxyUrl, rest.sealedProxyUrl);
  return {
    name,
    type,
    baseUrl: url('base_url', rest.baseUrl, rest.sealedBaseUrl) ?? providerType(type)?.defaultBaseUrl ?? '',
    apiKeys: apiKeys.map((sealed) => open('api_keys', sealed)),
    models: models.map((id) => ({ id })),
    modelsMode: rest.modelsMode ?? usualMode,
    options: providerOptions(type, options),
    ...(proxyUrl === undefined ? {} : { proxyUrl }),
    source: 'stored',
  };
}

function providerOptions(type: string, options: Readonly<Record<string, string>>): Record<string, string> {
  const names = ownFields(type);
  return Object.fromEntries(Object.entries(options).map(([field, value]) => [names.get(field) ?? field, value]));
}
