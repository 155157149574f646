import { useEffect, useMemo, useRef } from 'preact/hooks';
import { followRowKeys } from '../../app/keys.ts';
import { hrefOf } from '../../app/router.ts';
import { Recorded } from '../../content/text/recorded.tsx';
import { formatCompact, formatDuration } from '../../format/numbers.ts';
import { Money, Time } from '../../ui/facts.tsx';
import { StatusBadge, toneOf } from '../../ui/status-badge.tsx';
import { type LaneLayout, laneLayout, type PlacedEdge } from './lane-layout.ts';

/** The part of the answer that the graph shows. */
interface GraphChain {
  readonly anchor_id: string;
  readonly nodes: readonly {
    readonly id: string;
    readonly at: string;
    readonly path: string;
    readonly outcome: string;
    readonly status_code: number;
    readonly duration_ms: number;
    readonly total_tokens: number | null;
    readonly total_cost: number | null;
    readonly requested_model?: string | undefined;
    readonly model?: string | undefined;
    readonly error_code?: string | undefined;
  }[];
  readonly edges: readonly { readonly from: string; readonly to: string; readonly kind: EdgeKind }[];
}

type EdgeKind = 'previous_response' | 'conversation' | 'session' | 'replayed_from';

const ROW = 64;
const LANE = 22;

/** Requests as rows, oldest first, with a line to each request that they belong to. */
export function ChainGraph({ chain }: { readonly chain: GraphChain }) {
  const { nodes, edges, anchor_id: anchor } = chain;
  const layout = useMemo(
    () =>
      laneLayout(
        nodes.map(({ id }) => id),
        edges,
      ),
    [chain],
  );
  const list = useRef<HTMLOListElement>(null);
  useEffect(
    () =>
      followRowKeys({
        move(by) {
          const links = [...(list.current?.querySelectorAll<HTMLAnchorElement>('a') ?? [])];
          const at = links.findIndex((link) => link.matches(':focus'));
          links[Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
        },
        // A focused link opens itself.
        open() {},
      }),
    [],
  );
  const numbers = new Map(nodes.map(({ id }, row) => [id, row + 1]));
  return (
    <div class="chain-scroll">
      <div class="chain">
        <Lines layout={layout} tones={nodes.map(({ status_code, outcome }) => toneOf(status_code, outcome))} />
        <ol ref={list} aria-label="Requests, oldest first">
          {nodes.map((node, row) => (
            <li key={node.id} aria-current={node.id === anchor ? 'true' : undefined} style={{ height: `${ROW}px` }}>
              <p>
                <span class="chain-number" aria-hidden="true">
                  {row + 1}
                </span>
                <a href={hrefOf(`/exchange/${encodeURIComponent(node.id)}`)}>
                  <Time at={node.at} />
                </a>{' '}
                <StatusBadge status={node.status_code} outcome={node.outcome} />{' '}
                <Recorded text={node.requested_model ?? node.model ?? node.path} />
              </p>
              <p class="chain-details">
                {relationsOf(node.id, edges, numbers)}
                {formatDuration(node.duration_ms)}
                {node.total_tokens !== null && ` · ${formatCompact(node.total_tokens)} tokens`}
                {node.total_cost !== null && (
                  <>
                    {' · '}
                    <Money dollars={node.total_cost} />
                  </>
                )}
                {node.error_code !== undefined && (
                  <>
                    {' · '}
                    <Recorded text={node.error_code} />
                  </>
                )}
              </p>
            </li>
          ))}
        </ol>
      </div>
      <p class="chain-legend">
        {legend.map(([kind, title]) => (
          <span key={kind}>
            <svg width="28" height="8" aria-hidden="true">
              <line class={`chain-line chain-${kind}`} x1="1" y1="4" x2="27" y2="4" />
            </svg>{' '}
            {title}
          </span>
        ))}
      </p>
    </div>
  );
}

const legend: readonly (readonly [EdgeKind, string])[] = [
  ['previous_response', 'continues the response'],
  ['conversation', 'next turn of the conversation'],
  ['session', 'next in the session'],
  ['replayed_from', 'got the recorded answer'],
];

const relations: Readonly<Record<EdgeKind, string>> = {
  previous_response: 'continues the response of',
  conversation: 'follows in the conversation on',
  session: 'follows in the session on',
  replayed_from: 'got the recorded answer of',
};

/** `continues the response of 3 · `. */
function relationsOf(id: string, edges: GraphChain['edges'], numbers: ReadonlyMap<string, number>): string {
  return edges
    .filter(({ to }) => to === id)
    .map(({ from, kind }) => `${relations[kind]} ${numbers.get(from) ?? '?'} · `)
    .join('');
}

function Lines({ layout, tones }: { readonly layout: LaneLayout<EdgeKind>; readonly tones: readonly string[] }) {
  const [width, height] = [layout.lanes * LANE, layout.places.length * ROW];
  return (
    <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      {layout.edges.map((edge) => (
        <path
          key={`${edge.from.row} ${edge.to.row} ${edge.kind}`}
          class={`chain-line chain-${edge.kind}`}
          d={lineOf(edge)}
        />
      ))}
      {layout.places.map(({ row, lane }) => (
        <circle key={row} class={`chain-node chain-node-${tones[row] ?? 'plain'}`} cx={x(lane)} cy={y(row)} r={6} />
      ))}
    </svg>
  );
}

const x = (lane: number) => (lane + 0.5) * LANE;
const y = (row: number) => (row + 0.5) * ROW;

/** To the lane of the later request within the first row, then down. A line beside a whole lane bends around it. */
function lineOf({ kind, from, to, lane }: PlacedEdge<EdgeKind>): string {
  const [startX, startY, endX, endY] = [x(from.lane), y(from.row), x(to.lane), y(to.row)];
  if (kind === 'replayed_from' && from.lane === to.lane) {
    const side = startX - LANE / 2.4;
    return `M ${startX} ${startY} C ${side} ${startY + ROW / 2}, ${side} ${endY - ROW / 2}, ${endX} ${endY}`;
  }
  if (from.lane === lane) return `M ${startX} ${startY} L ${endX} ${endY}`;
  const bend = startY + ROW;
  const curve = `M ${startX} ${startY} C ${startX} ${bend}, ${endX} ${startY}, ${endX} ${Math.min(bend, endY)}`;
  return endY > bend ? `${curve} L ${endX} ${endY}` : curve;
}
