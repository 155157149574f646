import type { QueryValue } from '../../app/router.ts';
import { BarList, type BarRow } from '../../charts/bar-list.tsx';
import { Count, Money } from '../../ui/facts.tsx';
import { Panel } from '../../ui/panel.tsx';
import { auditHref, type Overview } from './overview-links.ts';

type Ranked = Overview['user_paths'][number];
const columns = ['Requests', 'Errors', 'Tokens', 'Cost'];

/** The most active user paths, keys and models. */
export function Rankings({ overview }: { readonly overview: Overview }) {
  const row = (
    title: string,
    of: Omit<Ranked, 'user_path'>,
    filter: Readonly<Record<string, QueryValue>> | undefined,
  ): BarRow => ({
    key: `${title} ${JSON.stringify(filter)}`,
    title,
    href: filter && auditHref(overview, filter),
    value: of.requests,
    marked: of.errors,
    cells: [
      <Count count={of.requests} />,
      <Count count={of.errors} />,
      <Count count={of.total_tokens} />,
      <Money dollars={of.total_cost} />,
    ],
  });
  return (
    <>
      <Panel title="User paths with the most requests">
        <BarList
          label="User paths with the most requests"
          name="User path"
          columns={columns}
          rows={overview.user_paths.map((of) => row(of.user_path, of, { user_path: of.user_path }))}
        />
      </Panel>
      <Panel title="Keys with the most requests">
        <BarList
          label="Keys with the most requests"
          name="Key"
          columns={columns}
          rows={overview.keys.map((of) => {
            const { auth_key_id: id, name } = of;
            if (id === null) return row('No managed key', of, undefined);
            return row(name ?? id, of, { auth_key_id: id });
          })}
        />
      </Panel>
      <Panel title="Models with the most requests">
        <BarList
          label="Models with the most requests"
          name="Model"
          columns={columns}
          rows={overview.models.map((of) =>
            row(`${of.provider_name}/${of.model}`, of, { provider_name: of.provider_name, provider_model: of.model }),
          )}
        />
      </Panel>
    </>
  );
}
