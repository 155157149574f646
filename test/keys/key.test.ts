import { describe, it } from 'vitest';
import { highest } from '../../src/commands/access/authority.ts';
import { keyDecider } from '../../src/commands/keys/key.ts';
import {
  keyAllowedModelsChanged,
  keyCreated,
  keyDashboardAccessChanged,
  keyDeactivated,
  keyLabelsChanged,
  keyUserPathHeaderChanged,
} from '../../src/events/catalogue/key.ts';
import type { UserPath } from '../../src/events/event.ts';
import { specify } from '../support/decider-spec.ts';

const { given } = specify(keyDecider);
const context = { actor: 'master' as const };
const by = { authority: highest, key: undefined };
const on = { id: 'k1', context, by };

const facts = {
  name: 'CI',
  description: 'for the pipeline',
  userPath: '/team' as UserPath,
  labels: ['blue', 'old'],
  allowedModels: ['openai/'],
  dashboardAccess: false,
  userPathHeader: true,
  secretHash: 'ab'.repeat(32),
  lastCharacters: 'wxyz',
  expiresAt: 2_000_000,
};
const { userPathHeader: _, ...recorded } = facts;
const made = keyCreated.create({ id: 'k1', ...recorded }, context);
const withoutHeader = keyCreated.create({ id: 'k1', ...recorded, userPathHeader: false }, context);
const labelled = (...labels: string[]) => keyLabelsChanged.create({ labels }, context);
const allowed = (...allowedModels: string[]) => keyAllowedModelsChanged.create({ allowedModels }, context);
const access = (dashboardAccess: boolean) => keyDashboardAccessChanged.create({ dashboardAccess }, context);
const header = (userPathHeader: boolean) => keyUserPathHeaderChanged.create({ userPathHeader }, context);
const ended = keyDeactivated.create({}, context);

describe('a new key', () => {
  it('is one event that tells everything but the key', () => {
    given()
      .when({ ...on, kind: 'create', ...facts })
      .then([made]);
  });

  it('is not made twice', () => {
    given(made)
      .when({ ...on, kind: 'create', ...facts })
      .then({ status: 409, code: 'changed_meanwhile' });
  });
});

describe('a key', () => {
  it('is given other labels', () => {
    given(made)
      .when({ ...on, kind: 'set labels', labels: ['new'] })
      .then([labelled('new')]);
    given(made, labelled('new'))
      .when({ ...on, kind: 'set labels', labels: [] })
      .then([labelled()]);
  });

  it('has a label renamed where it has it, once if it had both', () => {
    given(made)
      .when({ ...on, kind: 'rename label', from: 'old', to: 'new' })
      .then([labelled('blue', 'new')]);
    given(made)
      .when({ ...on, kind: 'rename label', from: 'old', to: 'blue' })
      .then([labelled('blue')]);
    given(made)
      .when({ ...on, kind: 'rename label', from: 'other', to: 'blue' })
      .then([]);
  });

  it('may be used for other models, or again for all', () => {
    given(made)
      .when({ ...on, kind: 'set allowed models', allowedModels: ['gpt'] })
      .then([allowed('gpt')]);
    given(made, allowed('gpt'))
      .when({ ...on, kind: 'set allowed models', allowedModels: [] })
      .then([allowed()]);
  });

  it('is let into the admin API, and out of it', () => {
    given(made)
      .when({ ...on, kind: 'set dashboard access', dashboardAccess: true })
      .then([access(true)]);
    given(made, access(true))
      .when({ ...on, kind: 'set dashboard access', dashboardAccess: false })
      .then([access(false)]);
  });

  it('may be used with a header that names a user path, or not', () => {
    given()
      .when({ ...on, kind: 'create', ...facts, userPathHeader: false })
      .then([withoutHeader]);
    given(made)
      .when({ ...on, kind: 'set user path header', userPathHeader: false })
      .then([header(false)]);
    given(withoutHeader)
      .when({ ...on, kind: 'set user path header', userPathHeader: true })
      .then([header(true)]);
    for (const [events, userPathHeader] of [
      [[made], true],
      [[withoutHeader], false],
      [[made, header(false)], false],
    ] as const) {
      given(...events)
        .when({ ...on, kind: 'set user path header', userPathHeader })
        .then([]);
    }
  });

  it('is deactivated once', () => {
    given(made)
      .when({ ...on, kind: 'deactivate' })
      .then([ended]);
    given(made, ended)
      .when({ ...on, kind: 'deactivate' })
      .then([]);
  });

  it('that is as the command wants it already stays without an event', () => {
    given(made)
      .when({ ...on, kind: 'set labels', labels: ['blue', 'old'] })
      .then([]);
    given(made)
      .when({ ...on, kind: 'set allowed models', allowedModels: ['openai/'] })
      .then([]);
    given(made)
      .when({ ...on, kind: 'set dashboard access', dashboardAccess: false })
      .then([]);
  });

  it('that is deactivated may still be put in order', () => {
    given(made, ended)
      .when({ ...on, kind: 'set labels', labels: [] })
      .then([labelled()]);
  });
});

describe('a key that is not there', () => {
  it.each([
    [{ ...on, kind: 'set labels', labels: [] }],
    [{ ...on, kind: 'rename label', from: 'a', to: 'b' }],
    [{ ...on, kind: 'set allowed models', allowedModels: [] }],
    [{ ...on, kind: 'set dashboard access', dashboardAccess: true }],
    [{ ...on, kind: 'set user path header', userPathHeader: false }],
    [{ ...on, kind: 'deactivate' }],
  ] as const)('takes no command: %o', (command) => {
    given().when(command).then({ status: 404, code: null });
  });
});
