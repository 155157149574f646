/** Labels requests by team, and reports expensive ones. Usage, budgets and SQL can then be grouped by the label. */
import { definePlugin, z } from 'chancery/plugin';

export default definePlugin({
  name: 'team_labels',
  label: 'Labels by team',
  version: '1.0.0',
  description: 'Labels requests with the team of their user path, and prints exchanges above a cost.',
  config: z.object({
    teams: z.record(z.string(), z.string()).describe('team by the beginning of the user path'),
    report_above: z.number().min(0).default(1).describe('US dollars'),
  }),
  hooks: {
    request(_request, { userPath, config }) {
      const paths = Object.keys(config.teams).filter((path) => userPath === path || userPath.startsWith(`${path}/`));
      const [closest] = paths.sort((one, other) => other.length - one.length);
      const team = closest === undefined ? undefined : config.teams[closest];
      return team === undefined ? undefined : { labels: [`team:${team}`] };
    },
    complete({ exchangeId, cost = 0, labels }, { config }) {
      if (cost > config.report_above) console.log(`exchange ${exchangeId} cost $${cost.toFixed(2)}`, labels.join(' '));
    },
  },
});
