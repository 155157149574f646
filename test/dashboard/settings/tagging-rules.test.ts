import { expect, it } from 'vitest';
import { inputsOf, newRule, rulesOf } from '../../../dashboard/src/pages/settings/tagging-rules.ts';

it('sends the rules of the form without empty members, and without those of the configuration', () => {
  const inputs = inputsOf([
    { header: 'x-managed', delimiter: ',', do_not_pass: false, managed: true },
    { header: 'x-team', prefix: 'team:', delimiter: ';', do_not_pass: true },
  ]);
  expect(rulesOf([...inputs, newRule, { ...newRule, header: ' X-Cost ' }])).toEqual([
    { header: 'x-team', prefix: 'team:', delimiter: ';', do_not_pass: true },
    { header: 'X-Cost', do_not_pass: false },
  ]);
});
