/** The HTTP status of a ClickHouse error, as in ClickHouse's own HTTP interface. */

const byStatus: Readonly<Record<number, readonly number[]>> = {
  400: [6, 26, 27, 38, 41, 43, 53, 62, 69, 72, 117, 130, 131, 163, 190, 456, 457, 536],
  401: [194],
  403: [192, 193, 497, 516],
  404: [16, 46, 47, 50, 56, 60, 63, 73, 78, 81, 113, 115, 123, 139],
  408: [159],
  413: [223],
  501: [48],
  503: [209, 439],
};

const statuses = new Map(
  Object.entries(byStatus).flatMap(([status, codes]) => codes.map((code) => [code, Number(status)] as const)),
);

export function httpStatusOf(code: number): number {
  return statuses.get(code) ?? 500;
}
