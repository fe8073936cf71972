"""FID in 60-digit arithmetic."""

import mpmath


def by_sixty_digits(a, b):
    """FID through the eigenvalues of the Gram form, in 60-digit arithmetic."""
    with mpmath.workdps(60):
        sides = []
        for rows in (a, b):
            exact = mpmath.matrix(rows.tolist())
            n, d = exact.rows, exact.cols
            mean = [mpmath.fsum(exact[i, j] for i in range(n)) / n for j in range(d)]
            centred = mpmath.matrix(n, d)
            for i in range(n):
                for j in range(d):
                    centred[i, j] = (exact[i, j] - mean[j]) / mpmath.sqrt(n - 1)
            sides.append((mean, centred))
        (mean_a, rows_a), (mean_b, rows_b) = sides
        cross = rows_a * rows_b.T
        values = mpmath.eigsy(cross * cross.T, eigvals_only=True)
        common = mpmath.fsum(mpmath.sqrt(max(value, 0)) for value in values)
        squares = mpmath.fsum(entry**2 for rows in (rows_a, rows_b) for entry in rows)
        apart = mpmath.fsum((p - q) ** 2 for p, q in zip(mean_a, mean_b, strict=True))
        return float(apart + squares - 2 * common)
