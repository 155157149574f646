import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { startTestGateway } from '../support/gateway.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

it('a stopped gateway is released, so that a process can start many, one after the other', async () => {
  const stopped: WeakRef<object>[] = [];
  for (let n = 0; n < 3; n++) stopped.push(await startAndStop());
  await expect
    .poll(() => {
      collectGarbage();
      return stopped.filter((gateway) => gateway.deref() !== undefined).length;
    })
    // The frames of the last one may still be on the stack.
    .toBeLessThanOrEqual(1);
});

async function startAndStop(): Promise<WeakRef<object>> {
  const { gateway, fetch, close } = await startTestGateway();
  await (await fetch('/v1/models')).text();
  await (await fetch('/metrics')).text();
  await close();
  return new WeakRef(gateway);
}
