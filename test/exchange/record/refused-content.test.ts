import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { cutContent, KEPT_BODY_BYTES } from '../../../src/commands/exchange/record/end-events.ts';
import { requestPartReceived } from '../../../src/events/catalogue/exchange.ts';

const part = (name: string, value: string) =>
  requestPartReceived.create({ name, bytes: value.length, value }, { actor: 'master' });

it('keeps 4 KiB of all text fields of a refused form together, and the digest of what is cut', () => {
  const long = 'x'.repeat(5000);
  const [short, first, second] = cutContent([part('model', 'm'), part('prompt', long), part('other', 'abc')]);
  expect(short?.data).toEqual({ name: 'model', bytes: 1, value: 'm' });
  expect(first?.data).toMatchObject({
    value: 'x'.repeat(KEPT_BODY_BYTES - 1),
    bytes: 5000,
    sha256: createHash('sha256').update(long).digest('hex'),
  });
  expect(second?.data).toMatchObject({ value: '', bytes: 3 });
});
