import { describe, it } from 'vitest';
import { type Authority, highest } from '../../src/commands/access/authority.ts';
import { keyDecider } from '../../src/commands/keys/key.ts';
import {
  keyAllowedCidrsChanged,
  keyAllowedModelsChanged,
  keyCreated,
  keyDashboardAccessChanged,
  keyDeactivated,
  keyExpiryChanged,
  keyLabelsChanged,
  keyReactivated,
  keyRenamed,
  keyRotated,
  keyUserPathHeaderChanged,
} from '../../src/events/catalogue/access.ts';
import type { EventContext, UserPath } from '../../src/events/event.ts';
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
  allowedCidrs: [],
  dashboardAccess: false,
  userPathHeader: true,
  secretHash: 'ab'.repeat(32),
  lastCharacters: 'wxyz',
  expiresAt: 2_000_000,
};
const { userPathHeader: _, allowedCidrs: __, ...recorded } = facts;
const made = keyCreated.create({ id: 'k1', ...recorded }, context);
const withoutHeader = keyCreated.create({ id: 'k1', ...recorded, userPathHeader: false }, context);
const labelled = (...labels: string[]) => keyLabelsChanged.create({ labels }, context);
const allowed = (...allowedModels: string[]) => keyAllowedModelsChanged.create({ allowedModels }, context);
const near = (...allowedCidrs: string[]) => keyAllowedCidrsChanged.create({ allowedCidrs }, context);
const access = (dashboardAccess: boolean) => keyDashboardAccessChanged.create({ dashboardAccess }, context);
const header = (userPathHeader: boolean) => keyUserPathHeaderChanged.create({ userPathHeader }, context);
const ended = keyDeactivated.create({}, context);
const again = keyReactivated.create({}, context);
const renamed = (name: string, description: string | null) => keyRenamed.create({ name, description }, context);
const expiry = (expiresAt: number | null, by: EventContext = context) => keyExpiryChanged.create({ expiresAt }, by);
const secret = { secretHash: 'cd'.repeat(32), lastCharacters: 'abcd', previousValidUntil: 1_500_000 };
const rotated = keyRotated.create(secret, context);

/** An administrator below the master key and above no other. */
const belowMaster: Authority = { isUnder: (actor) => actor === 'master' };
const lower = {
  authority: belowMaster,
  key: {
    id: 'admin',
    userPath: '/team' as UserPath,
    allowedModels: ['openai/'],
    allowedCidrs: [] as string[],
    userPathHeader: true,
    expiresAt: 3_000_000,
    revision: 0,
  },
};
const byLower = { ...on, by: lower };
const ofLower = { actor: 'key:admin' as const };
/** The same administrator, of its own key. */
const onOwn = { ...on, by: { ...lower, key: { ...lower.key, id: 'k1' } } };

describe('a new key', () => {
  it('is one event with every fact but the key', () => {
    given()
      .when({ ...on, kind: 'create', ...facts })
      .then([made]);
  });

  it('is not made twice', () => {
    given(made)
      .when({ ...on, kind: 'create', ...facts })
      .then({ status: 409, code: 'key_exists' });
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

  it('may be used from some networks only, or again from all', () => {
    given(made)
      .when({ ...on, kind: 'set allowed cidrs', allowedCidrs: ['10.0.0.0/8'] })
      .then([near('10.0.0.0/8')]);
    given(made, near('10.0.0.0/8'))
      .when({ ...on, kind: 'set allowed cidrs', allowedCidrs: [] })
      .then([near()]);
    given(made, near('10.0.0.0/8'))
      .when({ ...on, kind: 'set allowed cidrs', allowedCidrs: ['10.0.0.0/8'] })
      .then([]);
  });

  it('never has networks beyond those of the key that creates or changes it', () => {
    const inside = { authority: belowMaster, key: { ...lower.key, allowedCidrs: ['10.0.0.0/8', '2001:db8::/32'] } };
    const start = { ...on, by: inside };
    for (const allowedCidrs of [[], ['11.0.0.0/8'], ['10.0.0.0/7'], ['10.1.0.0/16', '::/0'], ['0.0.0.0/0']]) {
      given()
        .when({ ...start, kind: 'create', ...facts, allowedCidrs })
        .then({ code: 'exceeds_own_access', param: 'allowed_cidrs' });
      given(made, near('10.1.2.3/32'))
        .when({ ...start, kind: 'set allowed cidrs', allowedCidrs })
        .then({ code: 'exceeds_own_access', param: 'allowed_cidrs' });
    }
    const allowedCidrs = ['10.1.0.0/16', '2001:db8:1::/48'];
    given(made, near('10.1.2.3/32'))
      .when({ ...start, kind: 'set allowed cidrs', allowedCidrs })
      .then([keyAllowedCidrsChanged.create({ allowedCidrs }, context)]);
    const own = { ...on, by: { ...inside, key: { ...inside.key, id: 'k1', allowedCidrs: ['10.1.0.0/16'] } } };
    given(made, near('10.1.0.0/16'))
      .when({ ...own, kind: 'set allowed cidrs', allowedCidrs: ['10.0.0.0/8'] })
      .then({ code: 'set_by_higher_administrator' });
  });

  it('gets and loses access to the admin API', () => {
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

  it('that already has the value of the command gets no event', () => {
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

  it('that is deactivated may still be changed', () => {
    given(made, ended)
      .when({ ...on, kind: 'set labels', labels: [] })
      .then([labelled()]);
  });
});

describe('renaming a key', () => {
  it('records name and description, and leaves out unchanged ones', () => {
    given(made)
      .when({ ...on, kind: 'rename', name: 'CD' })
      .then([renamed('CD', 'for the pipeline')]);
    given(made)
      .when({ ...on, kind: 'rename', name: 'CI', description: null })
      .then([renamed('CI', null)]);
    given(made, renamed('CD', null))
      .when({ ...on, kind: 'rename', name: 'CD', description: 'new' })
      .then([renamed('CD', 'new')]);
  });

  it('records nothing for the name and description that the key has', () => {
    for (const description of [undefined, 'for the pipeline']) {
      given(made)
        .when({ ...on, kind: 'rename', name: 'CI', description })
        .then([]);
    }
    given(made, renamed('CD', null))
      .when({ ...on, kind: 'rename', name: 'CD', description: null })
      .then([]);
  });
});

describe('the expiry of a key', () => {
  it('is changed and removed by the master key', () => {
    given(made)
      .when({ ...on, kind: 'set expiry', expiresAt: 9_000_000 })
      .then([expiry(9_000_000)]);
    given(made, expiry(9_000_000))
      .when({ ...on, kind: 'set expiry', expiresAt: undefined })
      .then([expiry(null)]);
    given(made, expiry(null))
      .when({ ...on, kind: 'set expiry', expiresAt: undefined })
      .then([]);
  });

  it('is extended by a key up to its own expiry, or back to that of a higher administrator', () => {
    given(made)
      .when({ ...byLower, kind: 'set expiry', expiresAt: 3_000_000 })
      .then([expiry(3_000_000)]);
    for (const expiresAt of [3_000_001, undefined]) {
      given(made)
        .when({ ...byLower, kind: 'set expiry', expiresAt })
        .then({ status: 403, code: 'exceeds_own_access' });
    }
    given(made, expiry(null), expiry(5, ofLower))
      .when({ ...byLower, kind: 'set expiry', expiresAt: undefined })
      .then([expiry(null)]);
  });

  it('is shortened by the key itself, and not extended beyond that of a higher administrator', () => {
    given(made)
      .when({ ...onOwn, kind: 'set expiry', expiresAt: 5 })
      .then([expiry(5)]);
    for (const expiresAt of [2_000_001, undefined]) {
      given(made)
        .when({ ...onOwn, kind: 'set expiry', expiresAt })
        .then('set_by_higher_administrator');
    }
    given(made, expiry(5, ofLower))
      .when({ ...onOwn, kind: 'set expiry', expiresAt: 2_000_000 })
      .then([expiry(2_000_000)]);
  });
});

describe('rotating a key', () => {
  it('records the new hash and how long the secret until now is accepted', () => {
    given(made)
      .when({ ...on, kind: 'rotate', ...secret })
      .then([rotated]);
    given(made, ended)
      .when({ ...on, kind: 'rotate', ...secret })
      .then([rotated]);
  });

  it('gives no key the secret of one that may do more', () => {
    given(made)
      .when({ ...byLower, kind: 'rotate', ...secret })
      .then([rotated]);
    for (const more of [allowed(), allowed('openai/', 'groq/'), expiry(null), expiry(3_000_001)]) {
      given(made, more)
        .when({ ...byLower, kind: 'rotate', ...secret })
        .then({ status: 403, code: 'exceeds_own_access' });
      given(made, more)
        .when({ ...onOwn, kind: 'rotate', ...secret })
        .then([rotated]);
    }
    const { userPath: _path, ...unbound } = recorded;
    given(keyCreated.create({ id: 'k1', ...unbound }, context))
      .when({ ...byLower, kind: 'rotate', ...secret })
      .then('user_path_out_of_scope');
  });
});

describe('reactivating a key', () => {
  it('undoes a deactivation, once', () => {
    given(made, ended)
      .when({ ...on, kind: 'reactivate' })
      .then([again]);
    given(made, ended, again)
      .when({ ...on, kind: 'reactivate' })
      .then([]);
    given(made)
      .when({ ...on, kind: 'reactivate' })
      .then([]);
  });

  it('is refused to an administrator when a higher one deactivated the key last', () => {
    given(made, ended)
      .when({ ...byLower, kind: 'reactivate' })
      .then({ status: 403, code: 'set_by_higher_administrator' });
    given(made, keyDeactivated.create({}, ofLower))
      .when({ ...byLower, kind: 'reactivate' })
      .then([again]);
    given(made, ended, again, keyDeactivated.create({}, ofLower))
      .when({ ...byLower, kind: 'reactivate' })
      .then([again]);
  });
});

describe('a key that does not exist', () => {
  it.each([
    [{ ...on, kind: 'set labels', labels: [] }],
    [{ ...on, kind: 'rename label', from: 'a', to: 'b' }],
    [{ ...on, kind: 'set allowed models', allowedModels: [] }],
    [{ ...on, kind: 'set allowed cidrs', allowedCidrs: [] }],
    [{ ...on, kind: 'set dashboard access', dashboardAccess: true }],
    [{ ...on, kind: 'set user path header', userPathHeader: false }],
    [{ ...on, kind: 'rename', name: 'x' }],
    [{ ...on, kind: 'set expiry', expiresAt: undefined }],
    [{ ...on, kind: 'rotate', ...secret }],
    [{ ...on, kind: 'deactivate' }],
    [{ ...on, kind: 'reactivate' }],
  ] as const)('takes no command: %o', (command) => {
    given().when(command).then({ status: 404, code: null });
  });
});
