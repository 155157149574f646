import { describe, test } from 'vitest';
import {
  type Credential,
  type CredentialCommand,
  createSealer,
  credentialDecider,
  KEPT,
} from '../../src/commands/credentials/credential.ts';
import { providerCredentialRemoved, providerCredentialSaved } from '../../src/events/catalogue/provider.ts';
import { specify } from '../support/decider-spec.ts';

const context = { actor: 'master' } as const;
const sealer = createSealer('the key of this test, long enough');
const former = createSealer('the key before that one, long enough');
const spec = specify(credentialDecider);

const key = (secret: string) => sealer.seal('mine', 'api_keys', secret);
const address = (secret: string) => sealer.seal('mine', 'base_url', secret);

const plain: Credential = {
  name: 'mine',
  type: 'openai',
  enabled: true,
  apiKeys: [key('one'), key('two')],
  models: ['a'],
  options: {},
};
const saved = (more: Partial<Credential> = {}) => providerCredentialSaved.create({ ...plain, ...more }, context);
const removed = providerCredentialRemoved.create({ name: 'mine' }, context);

type Save = Extract<CredentialCommand, { kind: 'save' }>;

function save(wish: Partial<Save['input']> = {}): Save {
  const { name, type, apiKeys, models, options } = plain;
  const whole = { name, type, apiKeys, models, options, enabled: undefined, baseUrl: undefined, proxyUrl: undefined };
  return { kind: 'save', keyId: sealer.keyId, context, input: { ...whole, ...wish } };
}

describe('a provider credential', () => {
  test('that is new is saved, and enabled', () => {
    spec.given().when(save()).then([saved()]);
  });

  test('that is saved unchanged gives no event', () => {
    spec.given(saved()).when(save()).then([]);
  });

  test('stays disabled until a command enables it', () => {
    spec
      .given(saved({ enabled: false }))
      .when(save())
      .then([]);
    spec
      .given(saved({ enabled: false }))
      .when(save({ enabled: true }))
      .then([saved()]);
    spec
      .given(saved())
      .when(save({ enabled: false }))
      .then([saved({ enabled: false })]);
  });

  test('is replaced whole: omitted members are removed', () => {
    const before = saved({ baseUrl: 'https://host/v1', modelsMode: 'merge', options: { api_version: '1' } });
    spec
      .given(before)
      .when(save({ models: [] }))
      .then([saved({ models: [] })]);
  });

  test('keeps the secret at the place of a mask', () => {
    spec
      .given(saved())
      .when(save({ apiKeys: [KEPT, key('other')] }))
      .then([saved({ apiKeys: [key('one'), key('other')] })]);
    spec
      .given(saved())
      .when(save({ apiKeys: [KEPT, KEPT] }))
      .then([]);
    spec
      .given(saved())
      .when(save({ apiKeys: [KEPT] }))
      .then([saved({ apiKeys: [key('one')] })]);
  });

  test('has nothing at the place of a mask that is new', () => {
    spec
      .given()
      .when(save({ apiKeys: [KEPT] }))
      .then({ status: 400, param: 'api_keys.0' });
    spec
      .given(saved())
      .when(save({ apiKeys: [KEPT, KEPT, KEPT] }))
      .then({ status: 400, param: 'api_keys.2' });
    spec
      .given(saved(), removed)
      .when(save({ apiKeys: [KEPT] }))
      .then({ status: 400, param: 'api_keys.0' });
  });

  test('keeps the password of an address that is otherwise the same', () => {
    const shown = 'https://me:********@host/v1';
    const before = saved({ baseUrl: shown, sealedBaseUrl: address('https://me:secret@host/v1') });
    spec
      .given(before)
      .when(save({ baseUrl: { shown, sealed: KEPT } }))
      .then([]);
  });

  test('gives the password of one address to no other', () => {
    const before = saved({
      baseUrl: 'https://me:********@host/v1',
      sealedBaseUrl: address('https://me:secret@host/v1'),
    });
    const elsewhere = { shown: 'https://me:********@elsewhere/v1', sealed: KEPT };
    spec
      .given(before)
      .when(save({ baseUrl: elsewhere }))
      .then({ status: 400, param: 'base_url' });
    spec
      .given()
      .when(save({ proxyUrl: elsewhere }))
      .then({ status: 400, param: 'proxy_url' });
  });

  test('cannot keep a secret that was sealed with a lost key', () => {
    const lost = saved({ apiKeys: [former.seal('mine', 'api_keys', 'one')] });
    spec
      .given(lost)
      .when(save({ apiKeys: [KEPT] }))
      .then({ status: 400, param: 'api_keys.0' });
    spec
      .given(lost)
      .when(save({ apiKeys: [key('one')] }))
      .then([saved({ apiKeys: [key('one')] })]);
  });

  test('is removed once', () => {
    const remove: CredentialCommand = { kind: 'remove', name: 'mine', context };
    spec.given(saved()).when(remove).then([removed]);
    spec.given().when(remove).then({ status: 404 });
    spec.given(saved(), removed).when(remove).then({ status: 404 });
  });

  test('can be set up again after it was removed', () => {
    spec.given(saved(), removed).when(save()).then([saved()]);
  });
});
