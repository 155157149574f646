import { describe, test } from 'vitest';
import { type SetTagging, type TaggingRule, taggingDecider } from '../../src/commands/tagging/tagging.ts';
import { taggingChanged } from '../../src/events/catalogue/access.ts';
import { specify } from '../support/decider-spec.ts';

const context = { actor: 'master' } as const;
const spec = specify(taggingDecider);

const rule = (header: string, more: Partial<TaggingRule> = {}): TaggingRule => ({
  header,
  prefix: '',
  delimiter: ',',
  doNotPass: false,
  ...more,
});
const set = (rules: TaggingRule[], managed: string[] = []): SetTagging => ({
  rules,
  managed: new Set(managed),
  context,
});
const changed = (...headers: TaggingRule[]) => taggingChanged.create({ headers }, context);

describe('the rules of tagging', () => {
  test('are replaced all together', () => {
    spec
      .given()
      .when(set([rule('x-team')]))
      .then([changed(rule('x-team'))]);
    spec
      .given(changed(rule('x-team')))
      .when(set([rule('x-app')]))
      .then([changed(rule('x-app'))]);
    spec
      .given(changed(rule('x-team')))
      .when(set([]))
      .then([changed()]);
  });

  test('give no event when nothing changes', () => {
    spec.given().when(set([])).then([]);
    spec
      .given(changed(rule('x-team')))
      .when(set([rule('x-team')]))
      .then([]);
  });

  test('differ in each of their members', () => {
    for (const more of [{ prefix: 'a' }, { delimiter: ';' }, { doNotPass: true }]) {
      spec
        .given(changed(rule('x-team')))
        .when(set([rule('x-team', more)]))
        .then([changed(rule('x-team', more))]);
    }
  });

  test.each(['authorization', 'x-api-key', 'cookie', 'proxy-authorization'])('never make a label of %s', (header) => {
    spec
      .given()
      .when(set([rule('x-team'), rule(header)]))
      .then({ status: 400, param: 'headers.1.header' });
  });

  test('leave those of the configuration alone', () => {
    spec
      .given()
      .when(set([rule('x-team')], ['x-team']))
      .then({ status: 400, param: 'headers.0.header' });
  });

  test('are one for each header', () => {
    spec
      .given()
      .when(set([rule('a'), rule('b'), rule('a')]))
      .then({ status: 400, param: 'headers.2.header' });
  });

  test('have a largest number', () => {
    const many = Array.from({ length: 51 }, (_, number) => rule(`x-${number}`));
    spec.given().when(set(many)).then({ status: 400, param: 'headers' });
    spec
      .given()
      .when(set(many.slice(1)))
      .then([changed(...many.slice(1))]);
  });
});
