import { expect, it } from 'vitest';
import { wholeResult } from '../../../dashboard/src/pages/sql/whole-result.ts';

const result = 'a,b\n1,2\n';

function answer(body: string | ReadableStream, bytes?: number): Response {
  return new Response(body, bytes === undefined ? {} : { headers: { 'x-gateway-result-bytes': String(bytes) } });
}

it('is a result that has the length that the gateway states', async () => {
  expect(await (await wholeResult(answer(result, 8))).text()).toBe(result);
  expect((await wholeResult(answer('', 0))).size).toBe(0);
});

it('refuses a result that was cut, or that something was added to', async () => {
  await expect(wholeResult(answer(result.slice(0, 5), 8))).rejects.toThrow('5 bytes instead of 8');
  await expect(wholeResult(answer(`${result}Code: 241. DB::Exception`, 8))).rejects.toThrow('instead of 8');
});

it('refuses an answer of something else than the gateway', async () => {
  await expect(wholeResult(answer('<h1>Log in</h1>'))).rejects.toThrow('not of the gateway');
});

it('names a connection that ended', async () => {
  const cut = new ReadableStream({
    pull(controller) {
      controller.error(new TypeError('Failed to fetch'));
    },
  });
  await expect(wholeResult(answer(cut, 8))).rejects.toThrow(
    'The connection ended before the whole result had arrived.',
  );
});
