import { Readable } from 'node:stream';
import { crc32, createDeflateRaw } from 'node:zlib';

/** A file in a ZIP archive, by pieces of its content. */
export interface ZipFile {
  readonly name: string;
  readonly content: Iterable<string>;
  /** General purpose flags, besides the one for sizes after the content. */
  readonly flags?: number;
}

const utf8 = new TextEncoder();
const DATA_DESCRIPTOR_FLAG = 8;
const DEFLATED = 8;

/** Writes little-endian fields, each with its number of bytes. */
function record(...fields: readonly (readonly [value: number, bytes: number])[]): Buffer {
  return Buffer.concat(
    fields.map(([value, bytes]) => {
      const field = Buffer.alloc(bytes);
      field.writeUIntLE(value, 0, bytes);
      return field;
    }),
  );
}

/** Writes a ZIP archive in pieces, as programs do that do not know sizes beforehand. */
export async function* zipArchive(files: readonly ZipFile[], { level = 9 } = {}): AsyncGenerator<Uint8Array> {
  const directory: Uint8Array[] = [];
  let at = 0;
  for (const { name, content, flags = 0 } of files) {
    const start = at;
    const nameBytes = utf8.encode(name);
    const common = [
      [20, 2],
      [flags | DATA_DESCRIPTOR_FLAG, 2],
      [DEFLATED, 2],
      [0, 4],
    ] as const;
    const names = [
      [nameBytes.length, 2],
      [0, 2],
    ] as const;
    const local = [record([0x04034b50, 4], ...common, [0, 4], [0, 4], [0, 4], ...names), nameBytes];
    at += 30 + nameBytes.length;
    yield* local;

    let crc = 0;
    let bytes = 0;
    let compressed = 0;
    function* counted() {
      for (const text of content) {
        const piece = utf8.encode(text);
        crc = crc32(piece, crc);
        bytes += piece.length;
        yield piece;
      }
    }
    for await (const piece of Readable.from(counted()).pipe(createDeflateRaw({ level }))) {
      compressed += piece.length;
      yield piece;
    }
    const sizes = [
      [crc, 4],
      [compressed, 4],
      [bytes, 4],
    ] as const;
    yield record([0x08074b50, 4], ...sizes);
    at += compressed + 16;
    directory.push(
      record([0x02014b50, 4], [20, 2], ...common, ...sizes, ...names, [0, 2], [0, 2], [0, 2], [0, 4], [start, 4]),
      nameBytes,
    );
  }
  const central = Buffer.concat(directory);
  yield central;
  yield record([0x06054b50, 4], [0, 4], [files.length, 2], [files.length, 2], [central.length, 4], [at, 4], [0, 2]);
}

/** Content of a workbook for tests. */
export interface XlsxContent {
  /** For each sheet, what its `<sheetData>` has: rows, in pieces. */
  readonly sheets: Readonly<Record<string, Iterable<string>>>;
  /** XML after the cells of the first sheet. */
  readonly after?: string;
  /** Shared strings: each the content of an `<si>`. */
  readonly strings?: Iterable<string>;
  /** The number format of each style but the first. */
  readonly formats?: readonly string[];
  readonly date1904?: boolean;
}

const DECLARATION = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n';
const MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"';
const RELATIONSHIPS = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships';

/** The files of a workbook. The shared strings follow the sheets, as in files of Excel. */
export function xlsxFiles({ sheets, after = '', strings = [], formats = [], date1904 }: XlsxContent): ZipFile[] {
  const names = Object.keys(sheets);
  const ids = names.map((_, i) => `rId${i + 1}`);
  const link = (id: string, type: string, target: string) =>
    `<Relationship Id="${id}" Type="${RELATIONSHIPS}/${type}" Target="${target}"/>`;
  const links = (content: string) =>
    `${DECLARATION}<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${content}</Relationships>`;
  const sheetTags = names.map((name, i) => `<sheet name="${escaped(name)}" sheetId="${i + 1}" r:id="${ids[i]}"/>`);
  const sheetLinks = names.map((_, i) => link(ids[i] ?? '', 'worksheet', `worksheets/sheet${i + 1}.xml`));
  const numFmts = formats.map((format, i) => `<numFmt numFmtId="${200 + i}" formatCode="${escaped(format)}"/>`);
  const styles = formats.map((_, i) => `<xf numFmtId="${200 + i}"/>`);
  const part = (name: string, content: string) => ({ name, content: [content] });
  return [
    part(
      '[Content_Types].xml',
      `${DECLARATION}<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>`,
    ),
    part('_rels/.rels', links(link('rId1', 'officeDocument', 'xl/workbook.xml'))),
    part(
      'xl/workbook.xml',
      `${DECLARATION}<workbook ${MAIN} xmlns:r="${RELATIONSHIPS}"><workbookPr date1904="${date1904 === true}"/><sheets>${sheetTags.join('')}</sheets></workbook>`,
    ),
    part(
      'xl/_rels/workbook.xml.rels',
      links(
        `${sheetLinks.join('')}${link('rId98', 'styles', 'styles.xml')}${link('rId99', 'sharedStrings', '/xl/sharedStrings.xml')}`,
      ),
    ),
    part(
      'xl/styles.xml',
      `${DECLARATION}<styleSheet ${MAIN}><numFmts>${numFmts.join('')}</numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/>${styles.join('')}</cellXfs></styleSheet>`,
    ),
    ...Object.values(sheets).map((rows, i) => ({
      name: `xl/worksheets/sheet${i + 1}.xml`,
      content: around(
        `${DECLARATION}<worksheet ${MAIN}><sheetData>`,
        rows,
        `</sheetData>${i === 0 ? after : ''}</worksheet>`,
      ),
    })),
    {
      name: 'xl/sharedStrings.xml',
      content: around(`${DECLARATION}<sst ${MAIN}>`, strings, '</sst>', ['<si>', '</si>']),
    },
  ];
}

const PIECE_CHARACTERS = 64 * 1024;

function* around(start: string, pieces: Iterable<string>, end: string, [open = '', close = ''] = ['', '']) {
  let text = start;
  for (const piece of pieces) {
    text += `${open}${piece}${close}`;
    if (text.length < PIECE_CHARACTERS) continue;
    yield text;
    text = '';
  }
  yield text + end;
}

/** A text in XML. */
export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}

/** The bytes of a workbook. */
export async function xlsxBytes(content: XlsxContent, options?: { readonly level: number }): Promise<Uint8Array> {
  return Buffer.concat(await Array.fromAsync(zipArchive(xlsxFiles(content), options)));
}
