import { isDeepStrictEqual } from 'node:util';
import { peakBytes, type Report } from './measured.ts';
import type { EditWork, SheetBase, Work } from './phases.ts';
import { Stopwatch } from './stopwatch.ts';
import type { System, SystemName, Usage } from './systems/system.ts';
import { type CellEntry, isInside, Workload } from './workload.ts';

/**
 * Up to this number, all entries are generated before the clock starts. More are generated page by
 * page while the clock is paused.
 */
const PREPARED_ENTRIES = 1_000_000;

/** The phases that compare systems, for one system. */
export class SheetPhases {
  readonly #name: SystemName;
  readonly #system: System;
  readonly #workload: Workload;

  constructor(name: SystemName, system: System, rows: number) {
    this.#name = name;
    this.#system = system;
    this.#workload = new Workload(rows);
  }

  /** Writes the snapshots of a base. */
  async prepare(directory: string, base: SheetBase): Promise<void> {
    await this.#system.full(directory, this.#workload.pages('rows'));
    if (base.edits > 0) await this.#system.edit(directory, this.#workload.edits('scattered', base.edits));
  }

  async full(directory: string, { order }: Extract<Work, { kind: 'full' }>): Promise<Report> {
    const pages = this.#workload.pages(order);
    const clock = new Stopwatch();
    const entries = this.#workload.cells > PREPARED_ENTRIES ? clock.pausedBy(pages) : Array.from(pages);
    const usage = await clock.time(() => this.#system.full(directory, entries));
    const report = this.#report(clock, usage);
    await this.#check(directory, []);
    return report;
  }

  /** Runs rounds of edits, with a snapshot after each. */
  async edit(directory: string, work: EditWork): Promise<Report> {
    const warm = work.process === 'warm' ? this.#system.openWarm?.(directory) : undefined;
    const edit = warm?.edit ?? ((entries) => this.#system.edit(directory, entries));
    const measuredFrom = work.process === 'warm' ? work.rounds - 1 : 0;
    const clock = new Stopwatch();
    const inView: CellEntry[] = [];
    const total = { bytes: 0, objects: 0, requests: 0 };
    for (let round = 0; round < work.rounds; round++) {
      const entries = this.#workload.edits(work.spread, work.count, round);
      const isMeasured = round >= measuredFrom;
      const usage = await (isMeasured ? clock.time(() => edit(entries)) : edit(entries));
      if (isMeasured) {
        total.bytes += usage.bytes;
        total.objects += usage.objects;
        total.requests += usage.requests;
      }
      // Keep only the edits in view: the measured memory must be that of the system.
      inView.push(...entries.filter(({ body: [[row, column]] }) => isInside(this.#workload.view(), row, column)));
    }
    const report = this.#report(clock, total);
    warm?.close();
    await this.#check(directory, inView);
    return report;
  }

  async view(directory: string, base: SheetBase): Promise<Report> {
    const rectangle = this.#workload.view();
    const clock = new Stopwatch();
    const { cells, usage } = await clock.time(() => this.#system.view(directory, rectangle));
    const report = this.#report(clock, usage);
    const edits = base.edits > 0 ? this.#workload.edits('scattered', base.edits) : [];
    if (!isDeepStrictEqual(cells, this.#workload.viewed(rectangle, edits))) throw this.#wrong();
    return report;
  }

  /**
   * Reads the view in the middle of the sheet and compares it, since a wrong snapshot has no valid
   * measurement.
   */
  async #check(directory: string, edits: readonly CellEntry[]): Promise<void> {
    const rectangle = this.#workload.view();
    const { cells } = await this.#system.view(directory, rectangle);
    if (!isDeepStrictEqual(cells, this.#workload.viewed(rectangle, edits))) throw this.#wrong();
  }

  #wrong(): Error {
    return new Error(`${this.#name} shows other cells than it wrote`);
  }

  #report({ seconds, cpuSeconds }: Stopwatch, { bytes, objects, requests }: Usage): Report {
    const result = { system: this.#name, seconds, cpuSeconds, bytes, objects, requests };
    return { results: [result], peakBytes: peakBytes() };
  }
}
