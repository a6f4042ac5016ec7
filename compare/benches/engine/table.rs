//! A table on standard output.

/// Prints rows under a heading, columns aligned.
#[expect(clippy::print_stdout, reason = "a bench prints")]
pub(crate) fn print(heading: &str, rows: &[Vec<String>]) {
    println!("\n{heading}\n");
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<String> = (0..columns)
            .map(|column| {
                let cell = row.get(column).map_or("", String::as_str);
                let pad = width(column).unwrap_or(0).saturating_sub(cell.chars().count());
                if column == 0 {
                    format!("{cell}{}", " ".repeat(pad))
                } else {
                    format!("{}{cell}", " ".repeat(pad))
                }
            })
            .collect();
        println!("| {} |", cells.join(" | "));
        if index == 0 {
            println!("|{}|", vec!["---"; columns].join("|"));
        }
    }
}
