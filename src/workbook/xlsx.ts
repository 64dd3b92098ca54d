import type { ByteSource } from '../codec/bytes.ts';
import { WorkbookInvalidError } from '../errors.ts';
import { CellFormats } from './cell-format.ts';
import { damagedWorkbook, workbookTooLarge } from './invalid-workbook.ts';
import { MergedCells } from './merged-areas.ts';
import { firstRules, newestRules, type XlsxRules } from './reading-rules.ts';
import type { WorkbookRow } from './row.ts';
import { SharedStrings } from './shared-strings.ts';
import { SheetParser } from './sheet-parser.ts';
import { decodeText } from './text-decoding.ts';
import type { RulesNumber } from './typed-text.ts';
import { localName, type XmlAttributes, type XmlHandler, XmlParser } from './xml-parser.ts';
import { readDirectory, readPart, type ZipDirectory, type ZipPart } from './zip.ts';

/** The largest part that is kept in memory as a whole: sheets and texts of cells are not. */
const MAX_SMALL_PART_BYTES = 32 * 1024 * 1024;

/** How to read an XLSX file. */
export interface XlsxOptions {
  readonly sheet?: string | undefined;
  readonly values: 'text' | 'typed';
  readonly formulas: 'computed' | 'stored';
  readonly rules: RulesNumber;
  readonly onInvalidResult?: (() => void) | undefined;
}

/**
 * Reads a sheet of an XLSX file (ECMA-376). The file is read once for each part that is needed,
 * since its directory and the texts of its cells may be at its end.
 * @throws WorkbookInvalidError if the file is not an XLSX workbook, is damaged, encrypted or too
 * large, or if it lacks the sheet
 */
export async function* readXlsx(file: ByteSource, options: XlsxOptions): AsyncGenerator<WorkbookRow[]> {
  const { values, formulas, onInvalidResult } = options;
  const rules = options.rules === 1 ? firstRules : newestRules;
  const xlsx = new XlsxFile(file, await readDirectory(file));
  const { name, part, workbook, relationships } = await findSheet(xlsx, options.sheet, rules);
  const { from1904, asksToCompute } = workbook;
  const formats = new CellFormats({ from1904 });
  await xlsx.parse(relationships.find('styles'), formats, { isSmall: true });
  const strings = new SharedStrings(rules);
  await xlsx.parse(relationships.find('sharedStrings'), strings);
  const merged = new MergedCells(await rules.findMergedAreas(() => xlsx.texts(part)));

  const parser = new SheetParser({
    ...{ name, strings, formats, merged, from1904, asksToCompute },
    ...{ rules, values, formulas, onInvalidResult },
  });
  const xml = new XmlParser(parser, (reason) => parser.error(reason));
  for await (const text of xlsx.texts(part)) {
    xml.write(text);
    if (parser.batch.full) yield parser.batch.take();
  }
  xml.end();
  const last = parser.batch.take();
  if (last.length > 0) yield last;
}

class XlsxFile {
  readonly #file: ByteSource;
  readonly #directory: ZipDirectory;

  constructor(file: ByteSource, directory: ZipDirectory) {
    this.#file = file;
    this.#directory = directory;
  }

  texts(part: ZipPart): AsyncIterable<string> {
    return decodeText(readPart(this.#file, part), () => damagedWorkbook(`its part '${part.name}' is not UTF-8`));
  }

  /** Parses a part; does nothing without a name. */
  async parse(name: string | undefined, handler: XmlHandler, { isSmall = false } = {}): Promise<void> {
    if (name === undefined) return;
    const part = this.part(name);
    if (isSmall && part.bytes > MAX_SMALL_PART_BYTES)
      throw workbookTooLarge(`its part '${name}' has ${part.bytes} bytes`);
    const xml = new XmlParser(handler, (reason) => damagedWorkbook(`part '${name}': ${reason}`));
    for await (const text of this.texts(part)) xml.write(text);
    xml.end();
  }

  has(name: string): boolean {
    return this.#directory.find(name) !== undefined;
  }

  /** @throws WorkbookInvalidError if the file lacks the part */
  part(name: string): ZipPart {
    const part = this.#directory.find(name);
    if (part === undefined) throw damagedWorkbook(`its part '${name}' is missing`);
    return part;
  }
}

/** The links from one part to others. */
class Relationships implements XmlHandler {
  readonly #base: string;
  readonly #links: { readonly id: string; readonly type: string; readonly target: string }[] = [];

  /** @param base name of the part that has the links; '' for the file */
  constructor(base: string) {
    this.#base = base;
  }

  /** The name of the part with the links of a part. */
  static partFor(base: string): string {
    const slash = base.lastIndexOf('/') + 1;
    return `${base.slice(0, slash)}_rels/${base.slice(slash)}.rels`;
  }

  open(name: string, { Id = '', Type = '', Target = '' }: XmlAttributes): void {
    // The strict and the usual form of the format have different namespaces before the slash.
    const type = Type.slice(Type.lastIndexOf('/') + 1);
    if (name === 'Relationship') this.#links.push({ id: Id, type, target: resolveName(this.#base, Target) });
  }

  close(): void {}

  text(): void {}

  /** The name of the first part of a type, or of the part with an id. */
  find(type: string, id?: string): string | undefined {
    return this.#links.find((link) => link.type === type && (id === undefined || link.id === id))?.target;
  }
}

/** The name of a part that another part names relative to itself. */
function resolveName(base: string, target: string): string {
  const path = target.startsWith('/') ? [] : base.split('/').slice(0, -1);
  for (const step of target.split('/')) {
    if (step === '..') path.pop();
    else if (step !== '.' && step !== '') path.push(step);
  }
  return path.join('/');
}

/** The list of sheets. */
class Workbook implements XmlHandler {
  readonly sheets: { readonly name: string; readonly id: string }[] = [];
  /** Whether dates count from 1904 instead of 1900. */
  from1904 = false;
  /** Whether programs compute all formulas again, because their stored results are not valid. */
  asksToCompute = false;
  readonly #rules: XlsxRules;

  constructor(rules: XlsxRules) {
    this.#rules = rules;
  }

  open(name: string, attributes: XmlAttributes): void {
    if (name === 'workbookPr') this.from1904 = this.#flag('date1904', attributes);
    if (name === 'calcPr') this.asksToCompute = this.#flag('fullCalcOnLoad', attributes);
    if (name !== 'sheet') return;
    const id = Object.keys(attributes).find((key) => key !== 'id' && localName(key) === 'id') ?? 'id';
    this.sheets.push({ name: attributes.name ?? '', id: attributes[id] ?? '' });
  }

  close(): void {}

  text(): void {}

  #flag(name: string, { [name]: text = '0' }: XmlAttributes): boolean {
    const flag = this.#rules.booleanOf(text);
    if (flag === undefined) throw damagedWorkbook(`its workbook has '${text}' as ${name}`);
    return flag;
  }
}

interface FoundSheet {
  readonly name: string;
  readonly part: ZipPart;
  readonly workbook: Workbook;
  readonly relationships: Relationships;
}

/** Finds a sheet by its name, or the first one. Sheets with only a chart have no cells. */
async function findSheet(xlsx: XlsxFile, wanted: string | undefined, rules: XlsxRules): Promise<FoundSheet> {
  const path = await workbookPath(xlsx);
  const workbook = new Workbook(rules);
  await xlsx.parse(path, workbook, { isSmall: true });
  const relationships = new Relationships(path);
  await xlsx.parse(Relationships.partFor(path), relationships, { isSmall: true });

  const sheets = workbook.sheets.flatMap(({ name, id }) => {
    const part = relationships.find('worksheet', id);
    return part === undefined ? [] : [{ name, part }];
  });
  const found = wanted === undefined ? sheets[0] : sheets.find(({ name }) => name === wanted);
  if (found !== undefined) return { name: found.name, part: xlsx.part(found.part), workbook, relationships };
  if (wanted === undefined) throw damagedWorkbook('it has no sheet with cells');
  const names = sheets.map(({ name }) => `'${name}'`).join(', ');
  throw new WorkbookInvalidError(`the XLSX file has no sheet '${wanted}'`, {
    advice: `Name one of its sheets: ${names}`,
  });
}

/** The name of the part with the list of sheets. */
async function workbookPath(xlsx: XlsxFile): Promise<string> {
  const links = new Relationships('');
  const part = Relationships.partFor('');
  if (xlsx.has(part)) await xlsx.parse(part, links, { isSmall: true });
  const path = links.find('officeDocument');
  if (path?.endsWith('.xml')) return path;
  throw new WorkbookInvalidError('the ZIP archive is not an XLSX workbook. It may be ODS or XLSB', {
    advice: 'Open the file in a spreadsheet program and save it as XLSX',
  });
}
