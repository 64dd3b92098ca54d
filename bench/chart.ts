/** The bytes that one snapshot of a sheet writes. */
export interface GrowthPoint {
  readonly cells: number;
  /** The mean over a series of snapshots, each built from the previous one. */
  readonly logfold: number;
  /** All leaves and inner nodes and the root. */
  readonly rewriting: number;
}

const WIDTH = 720;
const HEIGHT = 420;
/** The plot area in the picture. */
const AREA = { left: 72, right: 548, top: 64, bottom: 364 } as const;

const STYLE = `
  text { font: 13px system-ui, sans-serif; fill: #57606a; }
  .title { font-size: 16px; font-weight: 600; fill: #1f2328; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
  .logfold.line { stroke: #0969da; }
  .rewriting.line { stroke: #bc4c00; }
  circle.logfold, text.logfold { fill: #0969da; }
  circle.rewriting, text.rewriting { fill: #bc4c00; }
  .name { font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1; }
    .title { fill: #f0f6fc; }
    .grid { stroke: #3d444d; }
    .logfold.line { stroke: #58a6ff; }
    .rewriting.line { stroke: #f0883e; }
    circle.logfold, text.logfold { fill: #58a6ff; }
    circle.rewriting, text.rewriting { fill: #f0883e; }
  }`;

/**
 * Draws bytes per snapshot against cells as SVG. Both axes are logarithmic. The colors suit light
 * and dark pages.
 */
export function growthChart(points: readonly GrowthPoint[], editsEach: number): string {
  const x = scale(
    points.map(({ cells }) => cells),
    AREA.left,
    AREA.right,
  );
  const y = scale(
    points.flatMap(({ logfold, rewriting }) => [logfold, rewriting]),
    AREA.bottom,
    AREA.top,
  );
  const line = (name: 'logfold' | 'rewriting', label: string): string[] => {
    const places = points.map((point) => `${x.place(point.cells)},${y.place(point[name])}`);
    const last = points.at(-1);
    return [
      `<polyline class="${name} line" points="${places.join(' ')}"/>`,
      ...points.map(
        (point) => `<circle class="${name}" cx="${x.place(point.cells)}" cy="${y.place(point[name])}" r="3.5"/>`,
      ),
      ...(last === undefined
        ? []
        : [
            `<text class="${name} name" x="${AREA.right + 12}" y="${y.place(last[name]) - 2}">${label}</text>`,
            `<text class="${name}" x="${AREA.right + 12}" y="${y.place(last[name]) + 14}">${formatBytes(last[name])}</text>`,
          ]),
    ];
  };
  const edits = editsEach.toLocaleString('en-US');
  const description = `Bytes that one snapshot writes after ${edits} edits anywhere, by size of the sheet`;
  return `${[
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${description}">`,
    `<style>${STYLE}\n</style>`,
    `<text class="title" x="16" y="28">Bytes written per snapshot, ${edits} edits anywhere before each</text>`,
    `<text x="16" y="48">Mean over many snapshots, each built from the previous one</text>`,
    ...y.ticks.flatMap((bytes) => [
      `<line class="grid" x1="${AREA.left}" y1="${y.place(bytes)}" x2="${AREA.right}" y2="${y.place(bytes)}"/>`,
      `<text text-anchor="end" x="${AREA.left - 8}" y="${y.place(bytes) + 4}">${formatBytes(bytes)}</text>`,
    ]),
    ...x.ticks.flatMap((cells) => [
      `<line class="grid" x1="${x.place(cells)}" y1="${AREA.top}" x2="${x.place(cells)}" y2="${AREA.bottom}"/>`,
      `<text text-anchor="middle" x="${x.place(cells)}" y="${AREA.bottom + 20}">${formatCells(cells)}</text>`,
    ]),
    `<text text-anchor="middle" x="${(AREA.left + AREA.right) / 2}" y="${HEIGHT - 12}">cells in the sheet</text>`,
    ...line('rewriting', 'rewriting everything'),
    ...line('logfold', 'logfold'),
    '</svg>',
  ].join('\n')}\n`;
}

interface Scale {
  /** Powers of ten on the axis. */
  readonly ticks: readonly number[];
  /** The coordinate of a number, in the picture's units. */
  readonly place: (number: number) => number;
}

/** A logarithmic axis from the power of ten below the least number to the greatest number. */
function scale(numbers: readonly number[], from: number, to: number): Scale {
  const low = Math.floor(Math.log10(Math.min(...numbers)));
  const high = Math.max(low + 1, Math.log10(Math.max(...numbers)));
  const ticks = Array.from({ length: Math.floor(high) - low + 1 }, (_, i) => 10 ** (low + i));
  const place = (number: number): number => {
    const share = (Math.log10(number) - low) / (high - low);
    return Math.round((from + share * (to - from)) * 10) / 10;
  };
  return { ticks, place };
}

function formatCells(cells: number): string {
  return cells < 1e6 ? `${cells / 1e3}k` : `${cells / 1e6}M`;
}

function formatBytes(bytes: number): string {
  if (bytes < 1e3) return `${Math.round(bytes)} B`;
  if (bytes < 1e6) return `${shortNumber(bytes / 1e3)} kB`;
  return `${shortNumber(bytes / 1e6)} MB`;
}

/** One decimal below 10, whole numbers above. */
function shortNumber(number: number): string {
  return number < 10 && !Number.isInteger(number) ? number.toFixed(1) : String(Math.round(number));
}
