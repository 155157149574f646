import { describe, expect, it } from 'vitest';
import { fieldsOfType, settingsOf, withoutSecrets } from '../../../dashboard/src/pages/models/provider-fields.ts';
import { credentialTypes } from '../../../src/commands/credentials/credential-fields.ts';

const typeOf = (name: string) => {
  const type = credentialTypes.find((one) => one.type === name);
  if (type === undefined) throw new Error(`no type ${name}`);
  return type;
};

describe('the form of a provider', () => {
  it.each(credentialTypes.map(({ type }) => type))('has each setting of %s once', (name) => {
    const type = typeOf(name);
    const { usual, advanced } = fieldsOfType(type);
    expect([...usual, ...advanced].map(({ key }) => key).sort()).toEqual(type.fields.map((one) => one.name).sort());
    expect([...usual, ...advanced].find(({ key }) => key === 'api_keys')?.kind).toBe('secrets');
  });

  it('begins with the stored settings, secrets masked, and without other members of the row', () => {
    const row = {
      ...{ name: 'a', type: 'openai', api_keys: ['********'], base_url: 'https://a.example/v1', enabled: true },
      ...{ session_sticky_keys: false, managed: false, revision: '3' },
    };
    const settings = settingsOf(row, typeOf('openai'));
    expect(settings).toEqual({ api_keys: ['********'], base_url: 'https://a.example/v1' });
  });

  it('shows no entered key beside the current version', () => {
    expect(JSON.stringify(withoutSecrets({ api_keys: ['sk-entered'], models: ['m'] }))).not.toContain('sk-entered');
  });
});
