/** Numbers in the format of the browser's locale. */
const locale = navigator.languages;
const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 });
const precise = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 });
const share = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 });

export function formatCount(count: number): string {
  return whole.format(count);
}

/** Such as 12.3K. Show the exact count beside it or in a title. */
export function formatCompact(count: number): string {
  return Math.abs(count) < 10_000 ? whole.format(count) : compact.format(count);
}

/** @param ratio 0 to 1 */
export function formatShare(ratio: number): string {
  return share.format(ratio);
}

/** US dollars with the digits that small amounts need. */
export function formatMoney(dollars: number): string {
  const size = Math.abs(dollars);
  const digits = size === 0 || size >= 1 ? 2 : Math.min(9, 2 - Math.floor(Math.log10(size)));
  return new Intl.NumberFormat(locale, {
    ...{ style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' },
    ...{ minimumFractionDigits: 2, maximumFractionDigits: digits },
  }).format(dollars);
}

export function formatBytes(bytes: number): string {
  if (bytes < 1024) return `${whole.format(bytes)} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  const step = Math.min(units.length, Math.floor(Math.log2(bytes) / 10));
  return `${precise.format(bytes / 1024 ** step)} ${units[step - 1]}`;
}

export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1) return `${precise.format(milliseconds)} ms`;
  if (milliseconds < 1000) return `${whole.format(milliseconds)} ms`;
  if (milliseconds < 60_000) return `${precise.format(milliseconds / 1000)} s`;
  const minutes = Math.floor(milliseconds / 60_000);
  return `${whole.format(minutes)} min ${whole.format(Math.floor((milliseconds % 60_000) / 1000))} s`;
}
