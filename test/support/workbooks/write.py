"""Writes the workbooks of openpyxl 3.1.5 and XlsxWriter 3.3.1 into the working directory."""

import datetime

import openpyxl
import openpyxl.worksheet.formula
import xlsxwriter

TIME = datetime.datetime(2026, 1, 5, 10, 30, 15)


def values(workbook):
    """Cells of every type that openpyxl writes without formulas."""
    sheet = workbook.active
    sheet.title = "Values"
    sheet.append(["text", "a_x000D_b", "  spaces  ", "ümlaut 𝄞", "007"])
    sheet.append([1, -2.5, 0.1, 123456789012, 0.30000000000000004])
    sheet.append([True, False, "#N/A", "TRUE", "0x10", "9007199254740993.0"])
    sheet.append([TIME, TIME.date(), TIME.time(), datetime.timedelta(hours=30, minutes=5)])
    sheet.append([datetime.datetime(1999, 12, 31, 23, 59, 59), datetime.date(2024, 2, 29)])
    sheet.append(["merged", "hidden", "shown"])
    sheet.merge_cells("A6:B7")
    sheet["A8"] = "last"
    sheet["B9"] = 0.25
    sheet["B9"].number_format = "0.0%"
    sheet["C9"] = 1234.5
    sheet["C9"].number_format = "#,##0.00"


def dates(name, iso_dates):
    workbook = openpyxl.Workbook()
    workbook.iso_dates = iso_dates
    values(workbook)
    workbook.save(name)


dates("openpyxl-dates.xlsx", False)
dates("openpyxl-iso-dates.xlsx", True)

workbook = openpyxl.Workbook()
sheet = workbook.active
sheet.append(["=1+2", "=1=1", "=NA()", '="x"&"y"', '=""', "=DATE(2026,1,5)"])
sheet["A2"] = openpyxl.worksheet.formula.ArrayFormula("A2:A3", "=A1:A1*{1;2}")
sheet["C2"] = "plain"
workbook.save("openpyxl-formulas.xlsx")

workbook = xlsxwriter.Workbook("xlsxwriter-values.xlsx")
sheet = workbook.add_worksheet("Values")
date = workbook.add_format({"num_format": "yyyy-mm-dd hh:mm:ss"})
bold = workbook.add_format({"bold": True})
sheet.write_row(0, 0, ["text", 1, -2.5, True, False])
sheet.write_datetime(1, 0, TIME, date)
sheet.write_datetime(1, 1, datetime.datetime(1900, 3, 1), date)
sheet.write_rich_string(1, 2, "rich ", bold, "bold")
sheet.write_string(1, 3, "a\rb")
sheet.merge_range(2, 0, 3, 1, "merged")
sheet.write_url(2, 2, "https://example.com/", string="a link")
sheet.write_comment(0, 0, '<mergeCell ref="A1:E1"/>')
workbook.close()

workbook = xlsxwriter.Workbook("xlsxwriter-formulas.xlsx")
sheet = workbook.add_worksheet("Formulas")
sheet.write_formula("A1", "=1+2")
sheet.write_formula("B1", "=1+2", None, 3)
sheet.write_formula("C1", "=1+2", None, "")
sheet.write_formula("D1", "=1=1", None, True)
sheet.write_formula("E1", "=NA()", None, "#N/A")
sheet.write_string("A2", "plain")
workbook.close()
