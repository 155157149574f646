/** The page Log and gateways of a gateway with a read model that cannot apply an event. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, it } from 'vitest';
import { replayStarted } from '../../src/events/catalogue/guardrail.ts';
import { streamName } from '../../src/events/event.ts';
import { openLog } from '../../src/events/open-log.ts';
import { ask, temporaryFolder } from '../e2e/gateway-process.ts';
import type { Answered } from '../support/answered.ts';
import { expectClean, settled, shownText } from './support/dashboard.ts';
import { describeInChromium, withDashboard } from './support/with-dashboard.ts';

const folder = temporaryFolder();

describeInChromium('a stopped read model', () => {
  const dashboard = withDashboard(async () => {
    const log = await openLog(pathToFileURL(join(folder.path, 'log')).href);
    const damaged = {
      type: replayStarted.type,
      schema: 1,
      data: null as unknown as object,
      context: { actor: 'system' as const },
    };
    await log.append([{ stream: streamName('replay', 'damaged'), events: [damaged], expectedRevision: 'any' }]);
    await log.close();
    return { data: 'empty', dataDir: folder.path };
  });
  const view = async (): Promise<Answered> => {
    const { views }: Answered = await (await ask(dashboard.url, '/admin/views')).json();
    return views.find(({ name }: Answered) => name === 'guardrail-replays');
  };

  it('continues without the event only after the effect was named, and records the skip', async () => {
    expect(await view()).toMatchObject({ state: 'stopped', stopped_at: { position: '0000000000000001' } });
    const opened = await dashboard.open('/log?tab=projections');
    const { page } = opened;
    const row = page
      .getByRole('listitem')
      .filter({ has: page.getByRole('heading', { name: 'guardrail-replays', exact: true }) });
    await row.getByRole('button', { name: /^Skip/ }).click();
    const dialog = page.getByRole('dialog');
    expect(await shownText(dialog)).toMatch(/leaves out event 0000000000000001[\s\S]*The skip cannot be undone/);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    expect((await view()).state).toBe('stopped');
    await row.getByRole('button', { name: /^Skip/ }).click();
    await dialog.getByLabel(/^Reason/).fill('written by a broken build');
    await dialog.getByRole('button', { name: 'Skip the event' }).click();
    await dialog.waitFor({ state: 'detached' });
    await expect.poll(async () => (await view()).state).toBe('live');
    expect((await view()).skipped).toMatchObject([{ reason: 'written by a broken build', by: 'master' }]);
    await expect.poll(() => shownText(row)).toContain('written by a broken build');
    await opened.visit('/history');
    await settled(page);
    expect(await shownText(page.locator('main'))).toMatch(/Event skipped by a read model[\s\S]*by the master key/);
    expectClean(opened);
  });
});
