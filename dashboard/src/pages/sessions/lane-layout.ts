/** Places the requests of a chain as in a history of versions: one row for each request, oldest first, in lanes. Pure. */

export interface ChainEdge<Kind extends string = string> {
  /** The earlier request. */
  readonly from: string;
  readonly to: string;
  readonly kind: Kind;
}

export interface PlacedEdge<Kind extends string> {
  readonly kind: Kind;
  readonly from: Place;
  readonly to: Place;
  /** The lane in which the line runs from the row of the earlier request to that of the later one. */
  readonly lane: number;
}

/** Both counted from 0. */
export interface Place {
  readonly row: number;
  readonly lane: number;
}

export interface LaneLayout<Kind extends string> {
  /** In the order of the requests. */
  readonly places: readonly Place[];
  readonly edges: readonly PlacedEdge<Kind>[];
  readonly lanes: number;
}

/** The edge that keeps a request in the lane of an earlier one: the first of these kinds. */
const inLane = ['previous_response', 'conversation', 'session'];

/** More lanes are drawn on top of each other. */
const MOST_LANES = 12;

/** @param ids oldest first. Edges of other requests, and edges against that order, are left out. */
export function laneLayout<Kind extends string>(
  ids: readonly string[],
  edges: readonly ChainEdge<Kind>[],
): LaneLayout<Kind> {
  const rows = new Map(ids.map((id, row) => [id, row]));
  const known = edges.flatMap(({ from, to, kind }) => {
    const [first, second] = [rows.get(from), rows.get(to)];
    return first !== undefined && second !== undefined && first < second ? [{ from: first, to: second, kind }] : [];
  });
  const parents = ids.map((_, row) => parentOf(known.filter(({ to }) => to === row)));
  const heirs = new Map<number, number>();
  for (const [row, parent] of parents.entries()) if (parent !== undefined && !heirs.has(parent)) heirs.set(parent, row);

  const places: Place[] = [];
  /** The last row that each lane is needed for. */
  const neededTo: number[] = [];
  for (const [row, parent] of parents.entries()) {
    const isHeir = parent !== undefined && heirs.get(parent) === row;
    const lane = isHeir ? (places[parent]?.lane ?? 0) : freeLane(neededTo, parent ?? row - 1);
    neededTo[lane] = heirs.get(row) ?? row;
    places.push({ row, lane });
  }
  const placed = known.flatMap(({ from, to, kind }): PlacedEdge<Kind>[] => {
    const [first, second] = [places[from], places[to]];
    return first === undefined || second === undefined ? [] : [{ kind, from: first, to: second, lane: second.lane }];
  });
  return { places, edges: placed, lanes: Math.min(MOST_LANES, neededTo.length) };
}

function parentOf(edges: readonly { readonly from: number; readonly kind: string }[]): number | undefined {
  for (const kind of inLane) {
    const edge = edges.find((one) => one.kind === kind);
    if (edge !== undefined) return edge.from;
  }
  return undefined;
}

/** The first lane that is not needed after a row. */
function freeLane(neededTo: readonly number[], after: number): number {
  const free = neededTo.findIndex((row) => row <= after);
  return Math.min(MOST_LANES - 1, free === -1 ? neededTo.length : free);
}
